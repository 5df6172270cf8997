// SPDX-License-Identifier: MIT
#include <hipvmm/compat/std_pmr.hpp>

#include <algorithm>
#include <stdexcept>

#include <hipvmm/mr/resource_adaptor.hpp>
#include "mr/resource/host_memory.hpp"

namespace hipvmm::mr {
namespace {

// For no bytes our resources return nullptr, and std::pmr requires an address.
std::size_t at_least_one(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

}  // namespace

std_pmr_adaptor::std_pmr_adaptor(mr::memory_resource* upstream)
    : upstream_{require_resource("std_pmr_adaptor", upstream)} {
  if (!upstream->is_host_accessible())
    throw std::invalid_argument{
        "std_pmr_adaptor: host code cannot use the memory of upstream; pass a resource whose "
        "is_host_accessible() is true, such as pinned_host_resource"};
}

void* std_pmr_adaptor::do_allocate(std::size_t bytes, std::size_t alignment) {
  return upstream_->allocate_sync(at_least_one(bytes), alignment);
}

void std_pmr_adaptor::do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  upstream_->deallocate_sync(pointer, at_least_one(bytes), alignment);
}

bool std_pmr_adaptor::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const std_pmr_adaptor*>(&other);
  return same != nullptr && upstream_->is_equal(*same->upstream_);
}

from_std_pmr_resource::from_std_pmr_resource(std::pmr::memory_resource* upstream)
    : upstream_{upstream} {
  if (upstream == nullptr)
    throw std::invalid_argument{"from_std_pmr_resource: upstream is nullptr; pass a resource"};
}

void* from_std_pmr_resource::do_allocate(stream_ref, std::size_t bytes, std::size_t alignment) {
  return do_allocate_sync(bytes, alignment);
}

void from_std_pmr_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                          std::size_t alignment) noexcept {
  detail::free_behind(stream, pointer, bytes,
                      [=, this] { upstream_->deallocate(pointer, bytes, alignment); });
}

void* from_std_pmr_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  // libstdc++ rounds up to the alignment, which ends at zero, and returns an address.
  detail::require_possible(bytes, "std::pmr::memory_resource::allocate");
  return upstream_->allocate(bytes, alignment);
}

void from_std_pmr_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                               std::size_t alignment) noexcept {
  detail::free_behind(detail::wait_before_delete, pointer,
                      [=, this] { upstream_->deallocate(pointer, bytes, alignment); });
}

bool from_std_pmr_resource::do_is_equal(const mr::memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const from_std_pmr_resource*>(&other);
  return same != nullptr && upstream_->is_equal(*same->upstream_);
}

}  // namespace hipvmm::mr
