// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>

// The header of 5.2 lacks it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipDeviceSetLimit(hipLimit_t limit,
                                                                       size_t value);

namespace hipvmm::host_provider {

/// Requests of a program to a device that have no effect here: kept and reported.
struct device_preferences {
  std::atomic<unsigned> schedule{hipDeviceScheduleAuto};
  std::atomic<int> cache{hipFuncCachePreferNone};
  std::atomic<std::size_t> stack_bytes{1024};
  std::atomic<std::size_t> heap_bytes{std::size_t{8} << 20U};

  void reset() noexcept {
    const device_preferences first;
    schedule = first.schedule.load();
    cache = first.cache.load();
    stack_bytes = first.stack_bytes.load();
    heap_bytes = first.heap_bytes.load();
  }
};

}  // namespace hipvmm::host_provider
