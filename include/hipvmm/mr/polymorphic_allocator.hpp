// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/per_device_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Elements of a resource, in stream order. Differs from std::pmr::polymorphic_allocator in that
/// both functions take a stream; what wants a standard allocator gets a stream_allocator_adaptor.
/// Does not own the resource. Any number of threads may use one.
template <typename T>
class polymorphic_allocator {
 public:
  using value_type = T;

  /// Uses the resource of the current device.
  polymorphic_allocator() : resource_{get_current_device_resource()} {}
  /// Throws: std::invalid_argument when `resource` is nullptr.
  // NOLINTNEXTLINE(google-explicit-constructor): a resource passes where an allocator is asked
  polymorphic_allocator(memory_resource* resource)
      : resource_{require_resource("polymorphic_allocator", resource)} {}
  /// An allocator of other elements from the same resource.
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): what std::allocator_traits asks for
  polymorphic_allocator(const polymorphic_allocator<U>& other) noexcept
      : resource_{other.get_upstream_resource()} {}

  /// `count` elements without values; nullptr when `count` is zero.
  /// Throws: std::length_error when so many exceed the address space; as the resource.
  [[nodiscard]] T* allocate(std::size_t count, stream_ref stream) {
    return static_cast<T*>(resource_->allocate(stream, bytes_for(count, sizeof(T)), alignment));
  }
  /// Gives back what allocate() gave for the same `count`; the resource tells what that means for
  /// work in other streams. What is wrong or fails goes to the error handler.
  void deallocate(T* pointer, std::size_t count, stream_ref stream) noexcept {
    resource_->deallocate(stream, pointer, count * sizeof(T), alignment);
  }

  /// Never nullptr.
  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept { return resource_; }

 private:
  static constexpr std::size_t alignment = std::max(alignof(T), memory_resource::default_alignment);

  memory_resource* resource_;
};

/// Whether what one allocated may be given back to the other.
template <typename T, typename U>
bool operator==(const polymorphic_allocator<T>& a, const polymorphic_allocator<U>& b) noexcept {
  return a.get_upstream_resource()->is_equal(*b.get_upstream_resource());
}
template <typename T, typename U>
bool operator!=(const polymorphic_allocator<T>& a, const polymorphic_allocator<U>& b) noexcept {
  return !(a == b);
}

}  // namespace hipvmm::mr
