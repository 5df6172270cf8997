// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>

#include <hipvmm/compat/hipmm_core.hpp>
#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::hipmm {

/// Refers to a resource; never empty. Differs from hipMM's:
/// - it refers to hipvmm resources only;
/// - one type serves for all: query the resource for its properties, as by is_host_accessible().
class device_async_resource_ref {
  using resource = hipvmm::mr::memory_resource;
  template <typename Resource>
  using if_resource = std::enable_if_t<std::is_base_of_v<resource, Resource>>;

 public:
  // NOLINTNEXTLINE(google-explicit-constructor): converts to hipMM's parameters
  device_async_resource_ref(resource& named) noexcept : resource_{&named} {}
  /// Throws: std::invalid_argument when `named` is nullptr.
  // NOLINTNEXTLINE(google-explicit-constructor): as above
  device_async_resource_ref(resource* named);
  // NOLINTNEXTLINE(google-explicit-constructor): all of hipvmm takes pointers
  operator resource*() const noexcept { return resource_; }

  [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment,
                                     cuda_stream_view stream) const {
    return resource_->allocate(stream, bytes, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, cuda_stream_view stream) const {
    return resource_->allocate(stream, bytes);
  }
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t alignment,
                        cuda_stream_view stream) const noexcept {
    resource_->deallocate(stream, pointer, bytes, alignment);
  }
  void deallocate_async(void* pointer, std::size_t bytes, cuda_stream_view stream) const noexcept {
    resource_->deallocate(stream, pointer, bytes);
  }
  /// The same by the names of hipMM 4.
  [[nodiscard]] void* allocate(cuda_stream_view stream, std::size_t bytes,
                               std::size_t alignment = resource::default_alignment) const {
    return resource_->allocate(stream, bytes, alignment);
  }
  void deallocate(cuda_stream_view stream, void* pointer, std::size_t bytes,
                  std::size_t alignment = resource::default_alignment) const noexcept {
    resource_->deallocate(stream, pointer, bytes, alignment);
  }
  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = resource::default_alignment) const {
    return resource_->allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t alignment = resource::default_alignment) const noexcept {
    resource_->deallocate_sync(pointer, bytes, alignment);
  }
  [[nodiscard]] void* allocate(std::size_t bytes,
                               std::size_t alignment = resource::default_alignment) const {
    return resource_->allocate_sync(bytes, alignment);
  }
  void deallocate(void* pointer, std::size_t bytes,
                  std::size_t alignment = resource::default_alignment) const noexcept {
    resource_->deallocate_sync(pointer, bytes, alignment);
  }

  /// As is_equal(). A pointer is compared as the resource it points to.
  friend bool operator==(device_async_resource_ref a, device_async_resource_ref b) noexcept {
    return are_equal(a.resource_, b.resource_);
  }
  friend bool operator!=(device_async_resource_ref a, device_async_resource_ref b) noexcept {
    return !(a == b);
  }
  template <typename Resource, typename = if_resource<Resource>>
  friend bool operator==(device_async_resource_ref a, Resource* b) noexcept {
    return are_equal(a.resource_, b);
  }
  template <typename Resource, typename = if_resource<Resource>>
  friend bool operator!=(device_async_resource_ref a, Resource* b) noexcept {
    return !(a == b);
  }
  template <typename Resource, typename = if_resource<Resource>>
  friend bool operator==(Resource* a, device_async_resource_ref b) noexcept {
    return b == a;
  }
  template <typename Resource, typename = if_resource<Resource>>
  friend bool operator!=(Resource* a, device_async_resource_ref b) noexcept {
    return !(b == a);
  }

 private:
  static bool are_equal(const resource* a, const resource* b) noexcept;

  resource* resource_;
};

using device_resource_ref = device_async_resource_ref;
using host_resource_ref = device_async_resource_ref;
using host_async_resource_ref = device_async_resource_ref;
using host_device_resource_ref = device_async_resource_ref;
using host_device_async_resource_ref = device_async_resource_ref;

/// Throws: std::invalid_argument when `resource` is nullptr.
template <typename Resource>
[[nodiscard]] device_async_resource_ref to_device_async_resource_ref_checked(Resource* resource) {
  return device_async_resource_ref{resource};
}

}  // namespace hipvmm::hipmm
