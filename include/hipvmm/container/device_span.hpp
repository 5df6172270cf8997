// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <hipvmm/container/device_iterator.hpp>
#include <hipvmm/core/device_code.hpp>

namespace hipvmm {

/// A view of `size` elements in device memory, which it does not own. Host code cannot access
/// elements, so unlike std::span it has no operator[], and its iterators are device_iterator.
template <typename T>
class device_span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using size_type = std::size_t;
  using pointer = T*;
  using iterator = device_iterator<T>;

  constexpr device_span() noexcept = default;
  HIPVMM_HOST_DEVICE constexpr device_span(T* data, size_type size) noexcept
      : data_{data}, size_{size} {}
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  // NOLINTNEXTLINE(google-explicit-constructor): as std::span
  HIPVMM_HOST_DEVICE constexpr device_span(device_span<U> other) noexcept
      : data_{other.data()}, size_{other.size()} {}

  /// Views a container that has span(). A temporary one converts to a span of const T only, as with
  /// std::span.
  template <
      typename Container, typename Span = decltype(std::declval<Container&>().span()),
      typename = std::enable_if_t<
          std::is_same_v<typename Span::iterator, device_iterator<typename Span::element_type>> &&
          std::is_convertible_v<Span, device_span> &&
          (std::is_lvalue_reference_v<Container> || std::is_const_v<T>)>>
  // NOLINTNEXTLINE(google-explicit-constructor): as std::span
  constexpr device_span(Container&& container) noexcept : device_span{container.span()} {}

  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr size_type size() const noexcept { return size_; }
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr size_type size_bytes() const noexcept {
    return size_ * sizeof(T);
  }
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr iterator begin() const noexcept {
    return iterator{data_};
  }
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr iterator end() const noexcept {
    return iterator{data_ + size_};
  }

  /// Throw: std::out_of_range unless all elements are in the span.
  [[nodiscard]] constexpr device_span first(size_type count) const { return subspan(0, count); }
  [[nodiscard]] constexpr device_span last(size_type count) const {
    return subspan(count > size_ ? 0 : size_ - count, count);
  }
  [[nodiscard]] constexpr device_span subspan(size_type offset, size_type count) const {
    if (offset > size_ || count > size_ - offset)
      throw std::out_of_range{"device_span::subspan: " + std::to_string(count) + " elements from " +
                              std::to_string(offset) + " exceed the size, " +
                              std::to_string(size_)};
    return device_span{data_ + offset, count};
  }

 private:
  T* data_ = nullptr;
  size_type size_ = 0;
};

}  // namespace hipvmm
