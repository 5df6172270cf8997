// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>

namespace hipvmm {

/// A device_buffer of uninitialised elements. The host accesses them by copies only. Each growth
/// copies: for a vector that grows often use growable_device_vector.
template <typename T>
class device_uvector {
  static_assert(std::is_trivially_copyable_v<T>,
                "device_uvector<T>: T must be trivially copyable, because elements travel between "
                "host and device as bytes");
  static_assert(std::is_same_v<T, std::remove_cv_t<T>>,
                "device_uvector<T>: T must be neither const nor volatile");

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

  /// Throws: as device_buffer; std::length_error when `size` elements exceed the address space.
  device_uvector(size_type size, stream_ref stream,
                 mr::memory_resource* resource = mr::get_current_device_resource())
      : storage_{bytes_for(size, sizeof(T)), stream, resource} {}
  /// `other` may be of another device. Throws: as device_buffer.
  device_uvector(const device_uvector& other, stream_ref stream,
                 mr::memory_resource* resource = mr::get_current_device_resource())
      : storage_{other.storage_, stream, resource} {}
  device_uvector() = delete;
  /// The moved-from vector is empty and may be used again.
  device_uvector(device_uvector&&) noexcept = default;
  device_uvector& operator=(device_uvector&&) noexcept = default;
  ~device_uvector() = default;

  /// Throws: std::out_of_range.
  [[nodiscard]] pointer element_ptr(size_type index) { return data() + checked(index); }
  [[nodiscard]] const_pointer element_ptr(size_type index) const { return data() + checked(index); }
  /// `value` has been read on return, unless it is in pinned memory and no capture is under way:
  /// then it must outlive the copy. Throws: std::out_of_range; hip_error.
  void set_element_async(size_type index, const T& value, stream_ref stream) {
    fill_pattern_async(stream, element_ptr(index), &value, sizeof(T), 1);
  }
  // Deleted as in hipMM, because its copies read the value later.
  void set_element_async(size_type index, const T&& value, stream_ref stream) = delete;
  void set_element_to_zero_async(size_type index, stream_ref stream) {
    fill_async(stream, element_ptr(index), 0, sizeof(T));
  }
  /// Waits for `stream`.
  void set_element(size_type index, const T& value, stream_ref stream) {
    set_element_async(index, value, stream);
    stream.synchronize();
  }
  /// Waits for `stream`. Throws: std::out_of_range; hip_error.
  [[nodiscard]] T element(size_type index, stream_ref stream) const {
    room_for_one value;
    copy(stream, &value, element_ptr(index), sizeof(T));
    return *reinterpret_cast<const T*>(&value);
  }
  [[nodiscard]] T front_element(stream_ref stream) const { return element(0, stream); }
  [[nodiscard]] T back_element(stream_ref stream) const {
    return element(is_empty() ? 0 : size() - 1, stream);
  }

  /// As device_buffer's. Throw: also std::length_error.
  void reserve(size_type size, stream_ref stream) {
    storage_.reserve(bytes_for(size, sizeof(T)), stream);
  }
  void resize(size_type size, stream_ref stream) {
    storage_.resize(bytes_for(size, sizeof(T)), stream);
  }
  void shrink_to_fit(stream_ref stream) { storage_.shrink_to_fit(stream); }
  /// The vector is then empty and may be used again.
  [[nodiscard]] device_buffer release() noexcept { return std::move(storage_); }

  [[nodiscard]] size_type size() const noexcept { return storage_.size() / sizeof(T); }
  [[nodiscard]] std::int64_t ssize() const noexcept { return static_cast<std::int64_t>(size()); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] bool is_empty() const noexcept { return empty(); }
  [[nodiscard]] size_type capacity() const noexcept { return storage_.capacity() / sizeof(T); }
  [[nodiscard]] pointer data() noexcept { return static_cast<T*>(storage_.data()); }
  [[nodiscard]] const_pointer data() const noexcept {
    return static_cast<const T*>(storage_.data());
  }
  [[nodiscard]] iterator begin() noexcept { return data(); }
  [[nodiscard]] iterator end() noexcept { return data() + size(); }
  [[nodiscard]] const_iterator begin() const noexcept { return data(); }
  [[nodiscard]] const_iterator end() const noexcept { return data() + size(); }
  [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
  [[nodiscard]] const_iterator cend() const noexcept { return end(); }
  [[nodiscard]] device_span<T> span() noexcept { return {data(), size()}; }
  [[nodiscard]] device_span<const T> span() const noexcept { return {data(), size()}; }

  [[nodiscard]] stream_ref stream() const noexcept { return storage_.stream(); }
  void set_stream(stream_ref stream) noexcept { storage_.set_stream(stream); }
  [[nodiscard]] device_ref device() const noexcept { return storage_.device(); }
  [[nodiscard]] mr::memory_resource* memory_resource() const noexcept {
    return storage_.memory_resource();
  }

 private:
  struct alignas(T) room_for_one {
    unsigned char bytes[sizeof(T)];
  };

  size_type checked(size_type index) const {
    if (index >= size())
      throw std::out_of_range{"device_uvector: element " + std::to_string(index) +
                              " is beyond the size, " + std::to_string(size())};
    return index;
  }

  device_buffer storage_;
};

}  // namespace hipvmm
