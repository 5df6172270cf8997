// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>

#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::mr {

struct pool_options {
  /// Bytes held from the start; rounded up to whole granules (region::granularity).
  std::size_t initial_bytes = 0;
  /// Limit of the memory held, in bytes, rounded down to whole granules; zero: the device's memory,
  /// which on an APU includes what is free there when the pool is made.
  std::size_t maximum_bytes = 0;
  /// A thread of the library releases idle memory beyond this many bytes to the device soon. Where
  /// quirk::re_reserve is in force, it does so only once the whole pool is idle.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  /// Whether the pool's chunks can be exported to other processes. The handle of the chunk behind
  /// an address is HIP's to give: hipMemRetainAllocationHandle.
  handle_type shareable = handle_type::none;
  /// What to do where capability::path() is memory_path::fallback.
  without_vmm fallback = without_vmm::use_hip_malloc;
};

}  // namespace hipvmm::mr
