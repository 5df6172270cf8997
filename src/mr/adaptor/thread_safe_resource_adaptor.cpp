// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/thread_safe_resource_adaptor.hpp>

namespace hipvmm::mr {

thread_safe_resource_adaptor::thread_safe_resource_adaptor(memory_resource* upstream)
    : resource_adaptor{"thread_safe_resource_adaptor", upstream} {}

void* thread_safe_resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes,
                                                std::size_t alignment) {
  const std::lock_guard held{lock_};
  return resource_adaptor::do_allocate(stream, bytes, alignment);
}

void thread_safe_resource_adaptor::do_deallocate(stream_ref stream, void* pointer,
                                                 std::size_t bytes,
                                                 std::size_t alignment) noexcept {
  const std::lock_guard held{lock_};
  resource_adaptor::do_deallocate(stream, pointer, bytes, alignment);
}

void* thread_safe_resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  const std::lock_guard held{lock_};
  return resource_adaptor::do_allocate_sync(bytes, alignment);
}

void thread_safe_resource_adaptor::do_deallocate_sync(void* pointer, std::size_t bytes,
                                                      std::size_t alignment) noexcept {
  const std::lock_guard held{lock_};
  resource_adaptor::do_deallocate_sync(pointer, bytes, alignment);
}

}  // namespace hipvmm::mr
