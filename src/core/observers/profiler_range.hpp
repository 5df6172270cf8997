// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::detail {

/// A range of this thread in the timeline of AMD's or NVIDIA's profiler, while it lives. Does
/// nothing unless HIPVMM_RANGES=1 is set and a library for it is found: ROCTx or NVTX. Only for
/// slow paths, because each profiler makes its own of a range.
class profiler_range {
 public:
  /// `name`: a string with static storage.
  explicit profiler_range(const char* name) noexcept;
  ~profiler_range();
  profiler_range& operator=(profiler_range&&) = delete;
};

}  // namespace hipvmm::detail
