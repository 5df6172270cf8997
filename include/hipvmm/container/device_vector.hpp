// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include <hipvmm/container/device_uvector.hpp>

namespace hipvmm {

/// A device_uvector whose elements have values from the start. Unlike in thrust::device_vector,
/// functions that use memory take a stream; only element reads and set_element() wait.
template <typename T>
class device_vector : private device_uvector<T> {
  static_assert(
      std::is_default_constructible_v<T>,
      "device_vector<T>: T must be default constructible, because added elements are T{}; "
      "device_uvector<T> leaves them uninitialised");

  using base = device_uvector<T>;

 public:
  using typename base::const_iterator;
  using typename base::const_pointer;
  using typename base::const_reference;
  using typename base::difference_type;
  using typename base::iterator;
  using typename base::pointer;
  using typename base::reference;
  using typename base::size_type;
  using typename base::value_type;

  /// Makes `count` elements T{}. Throws: as device_uvector.
  device_vector(size_type count, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource())
      : device_vector{count, T{}, stream, resource} {}
  /// `value` is read as by device_uvector::set_element_async().
  device_vector(size_type count, const T& value, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource())
      : base{count, stream, resource} {
    fill(0, count, value, stream);
  }
  device_vector(const device_vector& other, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource())
      : base{other, stream, resource} {}
  device_vector() = delete;
  device_vector(device_vector&&) noexcept = default;
  device_vector& operator=(device_vector&&) noexcept = default;
  ~device_vector() = default;

  /// Throws: as device_uvector::resize(); then size and elements are as before.
  void resize(size_type count, stream_ref stream) { resize(count, T{}, stream); }
  void resize(size_type count, const T& value, stream_ref stream) {
    base::reserve(count, stream);
    const size_type present = size();
    if (count > present) fill(present, count - present, value, stream);
    base::resize(count, stream);
  }

  using base::back_element;
  using base::begin;
  using base::capacity;
  using base::cbegin;
  using base::cend;
  using base::data;
  using base::device;
  using base::element;
  using base::element_ptr;
  using base::empty;
  using base::end;
  using base::front_element;
  using base::is_empty;
  using base::memory_resource;
  using base::release;
  using base::reserve;
  using base::set_element;
  using base::set_element_async;
  using base::set_element_to_zero_async;
  using base::set_stream;
  using base::shrink_to_fit;
  using base::size;
  using base::span;
  using base::ssize;
  [[nodiscard]] stream_ref stream() const noexcept { return base::stream(); }

 private:
  void fill(size_type first, size_type count, const T& value, stream_ref stream) {
    fill_pattern_async(stream, data() + first, &value, sizeof(T), count);
  }
};

}  // namespace hipvmm
