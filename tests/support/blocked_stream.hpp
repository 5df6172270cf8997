// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

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
  blocked_stream(const blocked_stream&) = delete;
  blocked_stream& operator=(const blocked_stream&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor)
  operator stream_ref() const { return stream_; }
  [[nodiscard]] bool is_done() const { return stream_.is_done(); }
  void release() {
    if (blocked_) gate_.set_value();
    blocked_ = false;
  }

 private:
  static void wait(void* gate) { static_cast<std::promise<void>*>(gate)->get_future().wait(); }

  std::promise<void> gate_;
  stream stream_;
  bool blocked_ = true;
};

}  // namespace hipvmm::test
