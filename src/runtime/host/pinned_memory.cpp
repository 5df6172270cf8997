// SPDX-License-Identifier: MIT
#include "runtime/host/pinned_memory.hpp"

#include <hip/hip_runtime_api.h>

#include "core/check.hpp"

namespace hipvmm::detail {

void* allocate_pinned(std::size_t bytes, unsigned flags) {
  void* pointer = nullptr;
  check_host_memory(hipHostMalloc(&pointer, bytes, flags), "hipHostMalloc", bytes);
  return pointer;
}

void free_pinned(void* pointer) noexcept { report(hipHostFree(pointer), "hipHostFree"); }

pinned_memory::pinned_memory(std::size_t bytes)
    : pointer_{allocate_pinned(bytes, hipHostMallocPortable)} {}

}  // namespace hipvmm::detail
