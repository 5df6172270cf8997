// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "core/hip_compat.hpp"

// Younger than 5.2.
extern "C" [[gnu::visibility("default")]] hipError_t hipDeviceSetLimit(hipLimit_t limit,
                                                                       size_t value);

namespace hipvmm::cuda_provider {
namespace {

CUlimit limit_of(int limit) {
  switch (limit) {
    case hip_compat::limit_stack_size:
      return CU_LIMIT_STACK_SIZE;
    case hipLimitMallocHeapSize:
      return CU_LIMIT_MALLOC_HEAP_SIZE;
    default:
      throw failure{hipErrorUnsupportedLimit};
  }
}

CUfunc_cache cache_of(int config) {
  switch (config) {
    case hipFuncCachePreferNone:
      return CU_FUNC_CACHE_PREFER_NONE;
    case hipFuncCachePreferShared:
      return CU_FUNC_CACHE_PREFER_SHARED;
    case hipFuncCachePreferL1:
      return CU_FUNC_CACHE_PREFER_L1;
    case hipFuncCachePreferEqual:
      return CU_FUNC_CACHE_PREFER_EQUAL;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

hipFuncCache_t cache_to_hip(CUfunc_cache config) {
  switch (config) {
    case CU_FUNC_CACHE_PREFER_NONE:
      return hipFuncCachePreferNone;
    case CU_FUNC_CACHE_PREFER_SHARED:
      return hipFuncCachePreferShared;
    case CU_FUNC_CACHE_PREFER_L1:
      return hipFuncCachePreferL1;
    case CU_FUNC_CACHE_PREFER_EQUAL:
      return hipFuncCachePreferEqual;
    default:
      throw failure{hipErrorUnknown};
  }
}

unsigned schedule_for_cuda(unsigned schedule) {
  switch (schedule) {
    case hipDeviceScheduleAuto:
      return CU_CTX_SCHED_AUTO;
    case hipDeviceScheduleSpin:
      return CU_CTX_SCHED_SPIN;
    case hipDeviceScheduleYield:
      return CU_CTX_SCHED_YIELD;
    case hipDeviceScheduleBlockingSync:
      return CU_CTX_SCHED_BLOCKING_SYNC;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

unsigned schedule_to_hip(unsigned flags) {
  switch (flags & CU_CTX_SCHED_MASK) {
    case CU_CTX_SCHED_SPIN:
      return hipDeviceScheduleSpin;
    case CU_CTX_SCHED_YIELD:
      return hipDeviceScheduleYield;
    case CU_CTX_SCHED_BLOCKING_SYNC:
      return hipDeviceScheduleBlockingSync;
    default:
      return hipDeviceScheduleAuto;
  }
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipGetDeviceFlags(unsigned int* flags) {
  return call([&](driver& machine) {
    require(flags != nullptr);
    unsigned given = 0;
    int active = 0;
    check(cuDevicePrimaryCtxGetState(machine.device(current_device()), &given, &active));
    *flags = schedule_to_hip(given);
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int* flags, int* active) {
  return call_bare([&] {
    const driver& machine = driver_with_device();
    require(flags != nullptr && active != nullptr);
    unsigned given = 0;
    check(cuDevicePrimaryCtxGetState(machine.device(device), &given, active));
    *flags = schedule_to_hip(given);
    return hipSuccess;
  });
}

hipError_t hipSetDeviceFlags(unsigned int flags) {
  return call([&](driver& machine) {
    constexpr unsigned resize = hipvmm::hip_compat::local_memory_resize_to_max;
    require((flags & ~(hipDeviceScheduleMask | hipDeviceMapHost | resize)) == 0);
    unsigned wanted = schedule_for_cuda(flags & hipDeviceScheduleMask);
    // Memory of the host can always be mapped; the driver refuses the flag for that (H200).
    if ((flags & resize) != 0) wanted |= CU_CTX_LMEM_RESIZE_TO_MAX;
    check(cuDevicePrimaryCtxSetFlags(machine.device(current_device()), wanted));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetLimit(size_t* value, hipLimit_t limit) {
  return call([&](driver&) {
    require(value != nullptr);
    check(cuCtxGetLimit(value, limit_of(value_of(limit))));
    return hipSuccess;
  });
}

hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value) {
  return call([&](driver&) {
    check(cuCtxSetLimit(limit_of(value_of(limit)), value));
    return hipSuccess;
  });
}

hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* config) {
  return call([&](driver&) {
    require(config != nullptr);
    CUfunc_cache found = CU_FUNC_CACHE_PREFER_NONE;
    check(cuCtxGetCacheConfig(&found));
    *config = cache_to_hip(found);
    return hipSuccess;
  });
}

hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config) {
  return call([&](driver&) {
    check(cuCtxSetCacheConfig(cache_of(value_of(config))));
    return hipSuccess;
  });
}

// Every GPU that CUDA 12 knows has banks of four bytes; newer drivers have no query for it.
hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* config) {
  return call([&](driver&) {
    require(config != nullptr);
    *config = hipSharedMemBankSizeFourByte;
    return hipSuccess;
  });
}

hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
  return call([&](driver&) {
    const int wanted = value_of(config);
    require(wanted >= hipSharedMemBankSizeDefault && wanted <= hipSharedMemBankSizeEightByte);
    return hipSuccess;
  });
}
