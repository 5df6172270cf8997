// SPDX-License-Identifier: MIT
#include "runtime/pointer_memory.hpp"

#include <hip/hip_runtime_api.h>

#include "core/check.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::detail {

std::optional<device_ref> device_of_memory(const void* pointer) {
  hipPointerAttribute_t attributes{};
  if (hipPointerGetAttributes(&attributes, pointer) != hipSuccess) {
    clear_last_error();
    return std::nullopt;
  }
  if (hip_compat::memory_type(attributes) != hipMemoryTypeDevice || attributes.isManaged != 0)
    return std::nullopt;
  return device_ref{attributes.device};
}

}  // namespace hipvmm::detail
