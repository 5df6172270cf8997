// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <future>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::test {

/// A stream that stands still until released, while others go on.
class blocked_stream {
 public:
  explicit blocked_stream(device_ref device) : stream_{device} {
    REQUIRE(hipLaunchHostFunc(stream_.get(), wait, &gate_) == hipSuccess);
  }
  ~blocked_stream() {
    release();
    stream_.synchronize();
  }
  blocked_stream& operator=(blocked_stream&&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor)
  operator stream_ref() const { return stream_; }
  // Not asked of HIP while it is blocked: AMD's runtime 7.2.4 may wait for the function then.
  [[nodiscard]] bool is_done() const { return !blocked_ && stream_.is_done(); }
  void release() {
    // Noted before the gate opens: a thread that waited for the stream may ask at once.
    if (blocked_.exchange(false)) gate_.set_value();
  }

 private:
  static void wait(void* gate) { static_cast<std::promise<void>*>(gate)->get_future().wait(); }

  std::promise<void> gate_;
  stream stream_;
  // Some tests release it in a thread while another asks whether it is done.
  std::atomic<bool> blocked_{true};
};

}  // namespace hipvmm::test
