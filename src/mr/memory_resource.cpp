// SPDX-License-Identifier: MIT
#include "mr/memory_resource.hpp"

#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include "core/owner_process.hpp"

constinit std::atomic<void (*)(const hipvmm::mr::memory_resource&) noexcept>
    hipvmm::detail::at_end_of_resource{nullptr};

namespace hipvmm::mr {
namespace {

[[noreturn]] void refuse_alignment(std::size_t bytes, std::size_t alignment) {
  throw std::invalid_argument{"an allocation of " + std::to_string(bytes) +
                              " bytes: the alignment " + std::to_string(alignment) +
                              " must be a power of two"};
}

// Without a frame for the sentence, because every allocation comes here.
inline void require_alignment(std::size_t bytes, std::size_t alignment) {
  if (!is_power_of_two(alignment)) [[unlikely]]
    refuse_alignment(bytes, alignment);
}

}  // namespace

memory_resource::~memory_resource() {
  if (const auto call = detail::at_end_of_resource.load(std::memory_order_acquire)) call(*this);
}

void memory_resource::keep_to_process() noexcept {
  // Requests in several threads may be the first.
  __atomic_store_n(&process_, detail::process_number.load(std::memory_order_relaxed),
                   __ATOMIC_RELAXED);
}

bool memory_resource::is_of_parent() const noexcept {
  const unsigned made_in = __atomic_load_n(&process_, __ATOMIC_RELAXED);
  return made_in != 0 && made_in != detail::process_number.load(std::memory_order_relaxed);
}

void memory_resource::require_own_process() const {
  if (is_of_parent()) [[unlikely]]
    detail::refuse_in_child();
}

void* memory_resource::allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  require_alignment(bytes, alignment);
  require_own_process();
  return bytes == 0 ? nullptr : do_allocate(stream, bytes, alignment);
}

void memory_resource::deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                 std::size_t alignment) noexcept {
  if (pointer != nullptr && !is_of_parent()) do_deallocate(stream, pointer, bytes, alignment);
}

void* memory_resource::allocate_sync(std::size_t bytes, std::size_t alignment) {
  require_alignment(bytes, alignment);
  require_own_process();
  return bytes == 0 ? nullptr : do_allocate_sync(bytes, alignment);
}

void memory_resource::deallocate_sync(void* pointer, std::size_t bytes,
                                      std::size_t alignment) noexcept {
  if (pointer != nullptr && !is_of_parent()) do_deallocate_sync(pointer, bytes, alignment);
}

}  // namespace hipvmm::mr
