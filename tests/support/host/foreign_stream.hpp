// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <utility>

#include <hipvmm/runtime/stream.hpp>
#include "support/host/host_provider.hpp"

namespace hipvmm::test {

/// A stream that the program has from HIP itself, on the current device, and ends without a word to
/// anybody.
class foreign_stream {
 public:
  foreign_stream() {
    REQUIRE(hipStreamCreateWithFlags(&value_, hipStreamNonBlocking) == hipSuccess);
  }
  /// Owns the stream `released`.
  explicit foreign_stream(ihipStream_t* released) : value_{released} {}
  ~foreign_stream() { end(); }
  foreign_stream& operator=(foreign_stream&&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor)
  operator stream_ref() const noexcept { return stream_ref{value_}; }
  [[nodiscard]] hipStream_t get() const noexcept { return value_; }
  void end() {
    if (value_ != nullptr) CHECK(hipStreamDestroy(std::exchange(value_, nullptr)) == hipSuccess);
  }

 private:
  hipStream_t value_ = nullptr;
};

/// Calls since this was made that named a stream which was destroyed.
class stale_stream_calls {
 public:
  [[nodiscard]] std::uint64_t count() const { return hipvmm_host_stale_stream_calls() - start_; }

 private:
  std::uint64_t start_ = hipvmm_host_stale_stream_calls();
};

}  // namespace hipvmm::test
