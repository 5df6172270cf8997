// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>

#include <hipvmm/container/device_uvector.hpp>

namespace hipvmm {

/// A device_uvector of one element: functions are as those of device_uvector for index 0. If it was
/// moved from, functions that access the value throw std::out_of_range.
template <typename T>
class device_scalar {
 public:
  using value_type = typename device_uvector<T>::value_type;
  using size_type = typename device_uvector<T>::size_type;
  using reference = typename device_uvector<T>::reference;
  using const_reference = typename device_uvector<T>::const_reference;
  using pointer = typename device_uvector<T>::pointer;
  using const_pointer = typename device_uvector<T>::const_pointer;

  /// Leaves the value uninitialised.
  explicit device_scalar(stream_ref stream,
                         mr::memory_resource* resource = mr::get_current_device_resource())
      : storage_{1, stream, resource} {}
  device_scalar(const T& value, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource())
      : storage_{1, stream, resource} {
    set_value_async(value, stream);
  }
  device_scalar(const device_scalar& other, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource())
      : storage_{other.storage_, stream, resource} {}

  [[nodiscard]] T value(stream_ref stream) const { return held(storage_).front_element(stream); }
  void set_value_async(const T& value, stream_ref stream) {
    held(storage_).set_element_async(0, value, stream);
  }
  void set_value_async(const T&& value, stream_ref stream) = delete;
  void set_value_to_zero_async(stream_ref stream) {
    held(storage_).set_element_to_zero_async(0, stream);
  }
  void set_value(const T& value, stream_ref stream) {
    held(storage_).set_element(0, value, stream);
  }

  [[nodiscard]] pointer data() noexcept { return storage_.data(); }
  [[nodiscard]] const_pointer data() const noexcept { return storage_.data(); }
  [[nodiscard]] constexpr size_type size() const noexcept { return 1; }
  [[nodiscard]] device_span<T> span() noexcept { return storage_.span(); }
  [[nodiscard]] device_span<const T> span() const noexcept { return storage_.span(); }

  [[nodiscard]] stream_ref stream() const noexcept { return storage_.stream(); }
  void set_stream(stream_ref stream) noexcept { storage_.set_stream(stream); }
  [[nodiscard]] device_ref device() const noexcept { return storage_.device(); }
  [[nodiscard]] mr::memory_resource* memory_resource() const noexcept {
    return storage_.memory_resource();
  }

 private:
  template <typename Storage>
  static Storage& held(Storage& storage) {
    if (storage.empty()) throw std::out_of_range{"the device_scalar is empty: it was moved from"};
    return storage;
  }

  device_uvector<T> storage_;
};

}  // namespace hipvmm
