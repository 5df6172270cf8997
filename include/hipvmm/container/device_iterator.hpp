// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include <hipvmm/core/device_code.hpp>

namespace hipvmm {

/// A random access iterator over elements in device memory, which converts to T*. Only device code
/// can dereference it: range-for loops and std algorithms in host code do not compile; with a T*
/// they would crash. Give Thrust's algorithms data() in code for a host compiler.
template <typename T>
class device_iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::remove_cv_t<T>;
  using difference_type = std::ptrdiff_t;
  using pointer = T*;
  using reference = T&;

  constexpr device_iterator() noexcept = default;
  HIPVMM_HOST_DEVICE explicit constexpr device_iterator(T* at) noexcept : at_{at} {}
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  // NOLINTNEXTLINE(google-explicit-constructor): as pointers
  HIPVMM_HOST_DEVICE constexpr device_iterator(device_iterator<U> other) noexcept
      : at_{other.get()} {}

  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr T* get() const noexcept { return at_; }
  // NOLINTNEXTLINE(google-explicit-constructor): kernels and copies take T*
  HIPVMM_HOST_DEVICE constexpr operator T*() const noexcept { return at_; }

#if defined(HIPVMM_DEVICE)
  // Not constexpr: nvcc's --expt-relaxed-constexpr would let host code call them.
  HIPVMM_DEVICE T& operator*() const noexcept { return *at_; }
  HIPVMM_DEVICE T* operator->() const noexcept { return at_; }
  HIPVMM_DEVICE T& operator[](difference_type n) const noexcept { return at_[n]; }
#endif
  // Host code reads elements by element(), copy_to_host() or copy(). Clang overloads by target, and
  // without these would convert to T* in host code; nvcc refuses the functions above there.
#if !defined(HIPVMM_DEVICE) || defined(__clang__)
  HIPVMM_HOST T& operator*() const = delete;
  HIPVMM_HOST T* operator->() const = delete;
  HIPVMM_HOST T& operator[](difference_type n) const = delete;
#endif

  HIPVMM_HOST_DEVICE constexpr device_iterator& operator+=(difference_type n) noexcept {
    at_ += n;
    return *this;
  }
  HIPVMM_HOST_DEVICE constexpr device_iterator& operator-=(difference_type n) noexcept {
    at_ -= n;
    return *this;
  }
  HIPVMM_HOST_DEVICE constexpr device_iterator& operator++() noexcept { return *this += 1; }
  HIPVMM_HOST_DEVICE constexpr device_iterator& operator--() noexcept { return *this -= 1; }
  HIPVMM_HOST_DEVICE constexpr device_iterator operator++(int) noexcept {
    const device_iterator before = *this;
    ++at_;
    return before;
  }
  HIPVMM_HOST_DEVICE constexpr device_iterator operator--(int) noexcept {
    const device_iterator before = *this;
    --at_;
    return before;
  }
  HIPVMM_HOST_DEVICE friend constexpr device_iterator operator+(device_iterator it,
                                                                difference_type n) noexcept {
    return it += n;
  }
  HIPVMM_HOST_DEVICE friend constexpr device_iterator operator+(difference_type n,
                                                                device_iterator it) noexcept {
    return it += n;
  }
  HIPVMM_HOST_DEVICE friend constexpr device_iterator operator-(device_iterator it,
                                                                difference_type n) noexcept {
    return it -= n;
  }
  // Differences and comparisons are those of the pointers.

 private:
  T* at_ = nullptr;
};

}  // namespace hipvmm
