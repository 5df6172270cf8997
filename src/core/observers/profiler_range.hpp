// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::detail {

/// A range of this thread in the timeline of AMD's or NVIDIA's profiler, if HIPVMM_RANGES=1 is set
/// and ROCTx or NVTX is found. Only for slow paths: a profiler decides what a range costs.
class profiler_range {
 public:
  /// `name` has static storage.
  explicit profiler_range(const char* name) noexcept;
  ~profiler_range();
  profiler_range& operator=(profiler_range&&) = delete;
};

}  // namespace hipvmm::detail
