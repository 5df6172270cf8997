// SPDX-License-Identifier: MIT
#include <vector>

#include "base/call.hpp"
#include "base/cuda_compat.hpp"
#include "core/hip_compat.hpp"
#include "providers/memory_advice.hpp"

namespace hipvmm::cuda_provider {
namespace {

static_assert(hipCpuDeviceId == CU_DEVICE_CPU && hipInvalidDeviceId == CU_DEVICE_INVALID,
              "answers about places pass through unchanged");

CUdevice place_of(const driver& machine, int place) {
  return place == hipCpuDeviceId ? CU_DEVICE_CPU : machine.device(place);
}

CUmem_advise advice_of(int advice) {
  switch (advice) {
    case hipMemAdviseSetReadMostly:
      return CU_MEM_ADVISE_SET_READ_MOSTLY;
    case hipMemAdviseUnsetReadMostly:
      return CU_MEM_ADVISE_UNSET_READ_MOSTLY;
    case hipMemAdviseSetPreferredLocation:
      return CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    case hipMemAdviseUnsetPreferredLocation:
      return CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    case hipMemAdviseSetAccessedBy:
      return CU_MEM_ADVISE_SET_ACCESSED_BY;
    case hipMemAdviseUnsetAccessedBy:
      return CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    case hipMemAdviseSetCoarseGrain:
    case hipMemAdviseUnsetCoarseGrain:
      throw failure{hipErrorNotSupported};
    default:
      throw failure{hipErrorInvalidValue};
  }
}

// If the advice names no place, HIP checks none.
bool names_a_place(CUmem_advise advice) noexcept {
  return advice != CU_MEM_ADVISE_SET_READ_MOSTLY && advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY;
}

hipError_t advise(const driver& machine, const void* pointer, std::size_t bytes,
                  hipMemoryAdvise advice, int ordinal) {
  const CUmem_advise wanted = advice_of(value_of(advice));
  const CUdevice place =
      names_a_place(wanted) ? place_of(machine, ordinal) : machine.device(current_device());
  check(cuda_compat::advise(to_cuda(pointer), bytes, wanted, place));
  return hipSuccess;
}

CUmem_range_attribute range_attribute_of(int attribute) {
  switch (attribute) {
    case hipMemRangeAttributeReadMostly:
      return CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    case hipMemRangeAttributePreferredLocation:
      return CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    case hipMemRangeAttributeAccessedBy:
      return CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    case hipMemRangeAttributeLastPrefetchLocation:
      return CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    case hipMemRangeAttributeCoherencyMode:
      throw failure{hipErrorNotSupported};
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
  return call([&](driver&) {
    require(pointer != nullptr && bytes != 0);
    require(flags == hipMemAttachGlobal || flags == hipMemAttachHost);
    CUdeviceptr start = 0;
    check(cuMemAllocManaged(&start, bytes,
                            flags == hipMemAttachHost ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_GLOBAL));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipMemPrefetchAsync(const void* pointer, size_t bytes, int device, hipStream_t stream) {
  return call_on(stream, [&](driver& machine) {
    require(pointer != nullptr && bytes != 0);
    check(
        cuda_compat::prefetch(to_cuda(pointer), bytes, place_of(machine, device), to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipMemAdvise(const void* pointer, size_t bytes, hipMemoryAdvise advice, int device) {
  return call([&](driver& machine) {
    require(pointer != nullptr && bytes != 0);
    return advise(machine, pointer, bytes, advice, device);
  });
}

hipError_t hipMemAdvise_v2(const void* pointer, size_t bytes, hipMemoryAdvise advice,
                           hipMemLocation location) {
  return call([&](driver& machine) {
    require(pointer != nullptr && bytes != 0);
    return advise(machine, pointer, bytes, advice, hipvmm::provider::ordinal_of(location));
  });
}

hipError_t hipMemRangeGetAttribute(void* data, size_t data_bytes, hipMemRangeAttribute attribute,
                                   const void* pointer, size_t bytes) {
  return call([&](driver&) {
    require(data != nullptr && pointer != nullptr && bytes != 0);
    check(cuMemRangeGetAttribute(data, data_bytes, range_attribute_of(value_of(attribute)),
                                 to_cuda(pointer), bytes));
    return hipSuccess;
  });
}

hipError_t hipMemRangeGetAttributes(void** data, size_t* data_bytes,
                                    hipMemRangeAttribute* attributes, size_t count,
                                    const void* pointer, size_t bytes) {
  return call([&](driver&) {
    require(data != nullptr && data_bytes != nullptr && attributes != nullptr && count != 0);
    require(pointer != nullptr && bytes != 0);
    std::vector<CUmem_range_attribute> translated;
    translated.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      require(data[i] != nullptr);
      translated.push_back(range_attribute_of(value_of(attributes[i])));
    }
    check(cuMemRangeGetAttributes(data, data_bytes, translated.data(), count, to_cuda(pointer),
                                  bytes));
    return hipSuccess;
  });
}

hipError_t hipStreamAttachMemAsync(hipStream_t stream, void* pointer, size_t bytes,
                                   unsigned int flags) {
  return call_on(stream, [&](driver&) {
    require(pointer != nullptr);
    require(flags == hipMemAttachGlobal || flags == hipMemAttachHost ||
            flags == hipMemAttachSingle);
    require(flags != hipMemAttachSingle || !hipvmm::hip_compat::is_legacy_stream(stream));
    check(cuStreamAttachMemAsync(to_cuda(stream), to_cuda(pointer), bytes,
                                 flags == hipMemAttachGlobal ? CU_MEM_ATTACH_GLOBAL
                                 : flags == hipMemAttachHost ? CU_MEM_ATTACH_HOST
                                                             : CU_MEM_ATTACH_SINGLE));
    return hipSuccess;
  });
}
