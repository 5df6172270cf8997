// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

struct parallel_copy {
  device_ref device;  // in whose streams
  void* to;
  const void* from;
  std::size_t bytes;
};

/// Makes all copies between device and host, in several streams of each device, and waits for them.
/// On failure waits for what was submitted; `may_be_running` becomes true where HIP refused that.
/// Throws: out_of_memory, hip_error.
void copy_in_parallel(const std::vector<parallel_copy>& copies, bool& may_be_running);

}  // namespace hipvmm::detail
