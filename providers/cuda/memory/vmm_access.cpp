// SPDX-License-Identifier: MIT
#include <vector>

#include "base/call.hpp"
#include "base/call_delay.hpp"
#include "memory/vmm.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipMemSetAccess(void* pointer, size_t bytes, const hipMemAccessDesc* wanted,
                           size_t count) {
  return call_anywhere([&](driver& machine) {
    require(pointer != nullptr && bytes != 0 && wanted != nullptr && count != 0);
    delay(priced_call::set_access);
    std::vector<CUmemAccessDesc> translated;
    translated.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      CUmemAccessDesc each{};
      each.location = device_location(machine, wanted[i].location, hipErrorInvalidValue);
      each.flags = access_of(value_of(wanted[i].flags));
      translated.push_back(each);
    }
    check(cuMemSetAccess(to_cuda(pointer), bytes, translated.data(), translated.size()));
    return hipSuccess;
  });
}

hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location,
                           void* pointer) {
  return call_anywhere([&](driver& machine) {
    require(flags != nullptr && location != nullptr && pointer != nullptr);
    const CUmemLocation device = device_location(machine, *location, hipErrorInvalidValue);
    unsigned long long found = 0;
    check(cuMemGetAccess(&found, &device, to_cuda(pointer)));
    *flags = access_to_hip(found);
    return hipSuccess;
  });
}
