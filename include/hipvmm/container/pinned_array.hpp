// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {
namespace detail {

inline mr::memory_resource* default_pinned_resource() {
  static mr::pinned_host_resource resource;
  return &resource;
}

}  // namespace detail

/// An array of fixed size in pinned host memory: copies to and from devices do not wait. Same
/// thread rules as std::vector.
/// - With a pinned_host_resource it may be destroyed while copies and kernels use it: the
///   destructor waits for all devices. reset(stream) waits for one stream only.
/// - Before the host reads the target of a copy, or writes its source, wait for that copy.
/// - If a captured graph uses it, it must outlive the graph's last launch.
template <typename T>
class pinned_array {
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                "pinned_array<T>: T must be trivially copyable, because devices copy elements as "
                "bytes, and default constructible");
  static_assert(std::is_same_v<T, std::remove_cv_t<T>>,
                "pinned_array<T>: T must be neither const nor volatile");

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = T*;
  using const_iterator = const T*;

  pinned_array() noexcept = default;
  /// Makes `size` elements T{}; `resource` must outlive them. Throws: std::invalid_argument if
  /// `resource` is nullptr or the host cannot access its memory; std::length_error if `size`
  /// elements exceed the address space; out_of_memory; hip_error.
  explicit pinned_array(size_type size,
                        mr::memory_resource* resource = detail::default_pinned_resource())
      : pinned_array{} {  // so that the destructor runs when a T{} throws
    resource_ = checked(resource);
    data_ = static_cast<T*>(resource->allocate_sync(bytes_for(size, sizeof(T)), alignment));
    size_ = size;
    std::uninitialized_value_construct_n(data_, size);
  }
  ~pinned_array() {
    if (data_ != nullptr) resource_->deallocate_sync(data_, size_ * sizeof(T), alignment);
  }
  pinned_array(pinned_array&& other) noexcept { swap(other); }
  pinned_array& operator=(pinned_array&& other) noexcept {
    pinned_array moved{std::move(other)};
    swap(moved);
    return *this;
  }
  void swap(pinned_array& other) noexcept {
    std::swap(resource_, other.resource_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  friend void swap(pinned_array& a, pinned_array& b) noexcept { a.swap(b); }

  /// Removes all elements. Pre: all work that uses them is ordered before this call in `stream`.
  void reset(stream_ref stream) noexcept {
    if (data_ != nullptr)
      resource_->deallocate(stream, std::exchange(data_, nullptr),
                            std::exchange(size_, 0) * sizeof(T), alignment);
  }

  [[nodiscard]] size_type size() const noexcept { return size_; }
  [[nodiscard]] size_type size_bytes() const noexcept { return size_ * sizeof(T); }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] pointer data() noexcept { return data_; }
  [[nodiscard]] const_pointer data() const noexcept { return data_; }
  [[nodiscard]] iterator begin() noexcept { return data_; }
  [[nodiscard]] iterator end() noexcept { return data_ + size_; }
  [[nodiscard]] const_iterator begin() const noexcept { return data_; }
  [[nodiscard]] const_iterator end() const noexcept { return data_ + size_; }
  [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
  [[nodiscard]] const_iterator cend() const noexcept { return end(); }
  [[nodiscard]] reference operator[](size_type index) noexcept { return data_[index]; }
  [[nodiscard]] const_reference operator[](size_type index) const noexcept { return data_[index]; }
  [[nodiscard]] reference at(size_type index) { return data_[required(index)]; }
  [[nodiscard]] const_reference at(size_type index) const { return data_[required(index)]; }
  /// nullptr after default construction and after a move from the array.
  [[nodiscard]] mr::memory_resource* memory_resource() const noexcept { return resource_; }

 private:
  static constexpr std::size_t alignment = alignof(T) > mr::memory_resource::default_alignment
                                               ? alignof(T)
                                               : mr::memory_resource::default_alignment;

  static mr::memory_resource* checked(mr::memory_resource* resource) {
    if (resource == nullptr) throw std::invalid_argument{"pinned_array: the resource is nullptr"};
    if (!resource->is_host_accessible())
      throw std::invalid_argument{
          "pinned_array: the host cannot access memory of this resource; use a "
          "mr::pinned_host_resource"};
    return resource;
  }
  size_type required(size_type index) const {
    if (index >= size_)
      throw std::out_of_range{"pinned_array: element " + std::to_string(index) +
                              " is beyond the size, " + std::to_string(size_)};
    return index;
  }

  mr::memory_resource* resource_ = nullptr;
  T* data_ = nullptr;
  size_type size_ = 0;
};

}  // namespace hipvmm
