// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

/// Allocates in stream order from a resource, which it does not own. Thread-safe.
/// stream_allocator_adaptor makes a standard allocator of it.
template <typename T>
class polymorphic_allocator {
 public:
  using value_type = T;

  polymorphic_allocator() : resource_{get_current_device_resource()} {}
  /// Throws: std::invalid_argument when `resource` is nullptr.
  // NOLINTNEXTLINE(google-explicit-constructor): converts to parameters that are allocators
  polymorphic_allocator(memory_resource* resource)
      : resource_{require_resource("polymorphic_allocator", resource)} {}
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): required by std::allocator_traits
  polymorphic_allocator(const polymorphic_allocator<U>& other) noexcept
      : resource_{other.get_upstream_resource()} {}

  /// Allocates `count` uninitialised elements; returns nullptr when `count` is zero.
  /// Throws: std::length_error when so many exceed the address space; as the resource.
  [[nodiscard]] T* allocate(std::size_t count, stream_ref stream) {
    return static_cast<T*>(resource_->allocate(stream, bytes_for(count, sizeof(T)), alignment));
  }
  /// Pre: allocate() returned `pointer` for the same `count`. As memory_resource::deallocate().
  void deallocate(T* pointer, std::size_t count, stream_ref stream) noexcept {
    resource_->deallocate(stream, pointer, count * sizeof(T), alignment);
  }

  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept { return resource_; }

 private:
  static constexpr std::size_t alignment = std::max(alignof(T), memory_resource::default_alignment);

  memory_resource* resource_;
};

template <typename T, typename U>
bool operator==(const polymorphic_allocator<T>& a, const polymorphic_allocator<U>& b) noexcept {
  return a.get_upstream_resource()->is_equal(*b.get_upstream_resource());
}
template <typename T, typename U>
bool operator!=(const polymorphic_allocator<T>& a, const polymorphic_allocator<U>& b) noexcept {
  return !(a == b);
}

}  // namespace hipvmm::mr
