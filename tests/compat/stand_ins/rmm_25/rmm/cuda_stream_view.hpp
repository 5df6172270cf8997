// SPDX-License-Identifier: MIT
#pragma once

#include <cuda/stream_ref>

namespace rmm {

class cuda_stream_view {
 public:
  constexpr cuda_stream_view() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as RMM's
  constexpr cuda_stream_view(CUstream_st* stream) noexcept : stream_{stream} {}
  // NOLINTNEXTLINE(google-explicit-constructor): as RMM's
  constexpr cuda_stream_view(cuda::stream_ref stream) noexcept : stream_{stream.get()} {}
  [[nodiscard]] constexpr CUstream_st* value() const noexcept { return stream_; }
  // NOLINTNEXTLINE(google-explicit-constructor): as RMM's
  constexpr operator CUstream_st*() const noexcept { return stream_; }
  // NOLINTNEXTLINE(google-explicit-constructor): as RMM's
  constexpr operator cuda::stream_ref() const noexcept { return stream_; }

 private:
  CUstream_st* stream_{};
};

}  // namespace rmm
