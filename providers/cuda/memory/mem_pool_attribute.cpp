// SPDX-License-Identifier: MIT
#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

CUmemPool_attribute pool_attribute_of(int attribute) {
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies:
      return CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
    case hipMemPoolReuseAllowOpportunistic:
      return CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
    case hipMemPoolReuseAllowInternalDependencies:
      return CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    case hipMemPoolAttrReleaseThreshold:
      return CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    case hipMemPoolAttrReservedMemCurrent:
      return CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    case hipMemPoolAttrReservedMemHigh:
      return CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    case hipMemPoolAttrUsedMemCurrent:
      return CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    case hipMemPoolAttrUsedMemHigh:
      return CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return call_anywhere([&](driver&) {
    require(pool != nullptr && value != nullptr);
    check(cuMemPoolSetAttribute(to_cuda(pool), pool_attribute_of(value_of(attribute)), value));
    return hipSuccess;
  });
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return call_anywhere([&](driver&) {
    require(pool != nullptr && value != nullptr);
    check(cuMemPoolGetAttribute(to_cuda(pool), pool_attribute_of(value_of(attribute)), value));
    return hipSuccess;
  });
}
