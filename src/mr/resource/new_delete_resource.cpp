// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/new_delete_resource.hpp>

#include <new>

#include "core/check.hpp"
#include "mr/resource/host_memory.hpp"

namespace hipvmm::mr {

void new_delete_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                        std::size_t alignment) noexcept {
  detail::free_behind(stream, pointer, bytes, [=] { detail::delete_aligned(pointer, alignment); });
}

void* new_delete_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  detail::require_possible(bytes, "operator new");
  void* const pointer = ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  if (pointer == nullptr) detail::throw_out_of_host_memory(bytes, "operator new");
  return pointer;
}

void new_delete_resource::do_deallocate_sync(void* pointer, std::size_t,
                                             std::size_t alignment) noexcept {
  detail::free_behind(detail::wait_before_delete, pointer,
                      [=] { detail::delete_aligned(pointer, alignment); });
}

bool new_delete_resource::do_is_equal(const memory_resource& other) const noexcept {
  return dynamic_cast<const new_delete_resource*>(&other) != nullptr;
}

}  // namespace hipvmm::mr
