// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <array>

#include "providers/host/tests/fixtures.hpp"
#include "providers/host/tests/model/vmm/vmm_model.hpp"

// HIP's calls with the model's arguments, which may be no enumerators at all.
namespace hipvmm::test::model {

inline void* pointer_to(address at) { return as_handle<void*>(at); }
inline address address_of(const void* pointer) { return reinterpret_cast<address>(pointer); }

inline hipMemLocation location_of(int type, int device) {
  return {not_an_enumerator<hipMemLocationType>(type), device};
}

inline hipError_t create_chunk(const create_arguments& wanted, handle& made) {
  hipMemAllocationProp properties{};
  properties.type = not_an_enumerator<hipMemAllocationType>(wanted.type);
  properties.location = location_of(wanted.location_type, wanted.device);
  properties.requestedHandleType =
      not_an_enumerator<hipMemAllocationHandleType>(wanted.handle_type);
  return hipMemCreate(wanted.result ? &made : nullptr, wanted.bytes,
                      wanted.properties ? &properties : nullptr, wanted.flags);
}

inline hipError_t give_access(address at, std::size_t bytes, const access_entry* entries,
                              std::size_t count) {
  std::array<hipMemAccessDesc, 3> wanted{};
  if (entries == nullptr) return hipMemSetAccess(pointer_to(at), bytes, nullptr, count);
  for (std::size_t i = 0; i < std::min(count, wanted.size()); ++i)
    wanted[i] = {location_of(entries[i].location_type, entries[i].device),
                 not_an_enumerator<hipMemAccessFlags>(entries[i].flags)};
  return hipMemSetAccess(pointer_to(at), bytes, wanted.data(), count);
}

inline hipError_t ask_access(unsigned long long* flags, const access_entry* location, address at) {
  if (location == nullptr) return hipMemGetAccess(flags, nullptr, pointer_to(at));
  const hipMemLocation asked = location_of(location->location_type, location->device);
  return hipMemGetAccess(flags, &asked, pointer_to(at));
}

inline hipError_t export_chunk(int* descriptor, handle of, int type, unsigned long long flags) {
  return hipMemExportToShareableHandle(descriptor, of,
                                       not_an_enumerator<hipMemAllocationHandleType>(type), flags);
}

inline hipError_t import_chunk(handle* made, void* os_handle, int type) {
  return hipMemImportFromShareableHandle(made, os_handle,
                                         not_an_enumerator<hipMemAllocationHandleType>(type));
}

}  // namespace hipvmm::test::model
