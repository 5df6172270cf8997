// SPDX-License-Identifier: MIT
#include "mr/allocate_and_wait.hpp"

namespace hipvmm::detail {

void* allocate_and_wait(mr::memory_resource& resource, stream_ref own, std::size_t bytes,
                        std::size_t alignment) {
  void* const pointer = resource.allocate(own, bytes, alignment);
  try {
    own.synchronize();
  } catch (...) {
    resource.deallocate(own, pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

}  // namespace hipvmm::detail
