// SPDX-License-Identifier: MIT
#include <vector>

#include "base/call.hpp"
#include "memory/vmm.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* wanted, size_t count) {
  return call_anywhere([&](driver& machine) {
    require(pool != nullptr && wanted != nullptr);
    require(count <= static_cast<std::size_t>(machine.device_count()), hipErrorInvalidDevice);
    std::vector<CUmemAccessDesc> translated;
    translated.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      CUmemAccessDesc each{};
      each.location = device_location(machine, wanted[i].location, hipErrorInvalidDevice);
      each.flags = access_of(value_of(wanted[i].flags));
      translated.push_back(each);
    }
    check(cuMemPoolSetAccess(to_cuda(pool), translated.data(), translated.size()));
    return hipSuccess;
  });
}

hipError_t hipMemPoolGetAccess(hipMemAccessFlags* flags, hipMemPool_t pool,
                               hipMemLocation* location) {
  return call_anywhere([&](driver& machine) {
    require(flags != nullptr && pool != nullptr && location != nullptr);
    CUmemLocation device = device_location(machine, *location, hipErrorInvalidValue);
    CUmemAccess_flags found{};
    check(cuMemPoolGetAccess(&found, to_cuda(pool), &device));
    *flags = access_to_hip(found);
    return hipSuccess;
  });
}
