// SPDX-License-Identifier: MIT
#include "machine/device_preferences.hpp"

#include <bit>

#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "machine/call.hpp"

namespace hipvmm::host_provider {
namespace {

device_preferences& current_preferences(runtime& machine) {
  return machine.device(current_device()).preferences;
}

std::atomic<std::size_t>& limit_of(runtime& machine, int limit) {
  require(limit < hip_compat::limit_range, machine.rules().unknown_limit);
  device_preferences& kept = current_preferences(machine);
  switch (limit) {
    case hip_compat::limit_stack_size:
      return kept.stack_bytes;
    case hipLimitMallocHeapSize:
      return kept.heap_bytes;
    default:
      throw failure{hipErrorUnsupportedLimit};
  }
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipGetDeviceFlags(unsigned int* flags) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr);
    *flags = current_preferences(machine).schedule;
    return hipSuccess;
  });
}

hipError_t hipSetDeviceFlags(unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    constexpr unsigned known =
        hipDeviceScheduleMask | hipDeviceMapHost | hipvmm::hip_compat::local_memory_resize_to_max;
    require((flags & ~known) == 0);
    const unsigned schedule = flags & hipDeviceScheduleMask;
    require(std::popcount(schedule) <= 1);
    current_preferences(machine).schedule = schedule;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetLimit(size_t* value, hipLimit_t limit) {
  return call(__func__, [&](runtime& machine) {
    require(value != nullptr);
    *value = limit_of(machine, value_of(limit));
    return hipSuccess;
  });
}

hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value) {
  return call(__func__, [&](runtime& machine) {
    limit_of(machine, value_of(limit)) = value;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* config) {
  return call(__func__, [&](runtime& machine) {
    require(config != nullptr);
    *config = static_cast<hipFuncCache_t>(current_preferences(machine).cache.load());
    return hipSuccess;
  });
}

hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config) {
  return call(__func__, [&](runtime& machine) {
    const int wanted = value_of(config);
    require(wanted >= hipFuncCachePreferNone && wanted <= hipFuncCachePreferEqual);
    current_preferences(machine).cache = wanted;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* config) {
  return call(__func__, [&](runtime&) {
    require(config != nullptr);
    *config = hipSharedMemBankSizeFourByte;
    return hipSuccess;
  });
}

hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
  return call(__func__, [&](runtime&) {
    const int wanted = value_of(config);
    require(wanted >= hipSharedMemBankSizeDefault && wanted <= hipSharedMemBankSizeEightByte);
    return hipSuccess;
  });
}
