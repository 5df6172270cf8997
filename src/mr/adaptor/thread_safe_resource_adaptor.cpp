// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/thread_safe_resource_adaptor.hpp>

namespace hipvmm::mr {

thread_safe_resource_adaptor::thread_safe_resource_adaptor(memory_resource* upstream)
    : resource_adaptor{"thread_safe_resource_adaptor", upstream} {}

void* thread_safe_resource_adaptor::do_allocate_any(const request& wanted) {
  const std::lock_guard held{lock_};
  return resource_adaptor::do_allocate_any(wanted);
}

void thread_safe_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  const std::lock_guard held{lock_};
  resource_adaptor::do_deallocate_any(pointer, freed);
}

}  // namespace hipvmm::mr
