// SPDX-License-Identifier: MIT
#pragma once

#include "address_map.hpp"

namespace hipvmm::host_provider {

inline address address_of(const void* pointer) noexcept {
  return reinterpret_cast<address>(pointer);
}

inline void* pointer_to(address at) noexcept {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

/// Whether it is host memory made for devices to use, which has the same address on all of them.
inline bool is_pinned(const region& found) noexcept {
  return found.kind == memory_kind::host_allocation || found.kind == memory_kind::registration;
}

}  // namespace hipvmm::host_provider
