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

}  // namespace hipvmm::host_provider
