// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <type_traits>
#include <utility>

#include <hipvmm/container/device_span.hpp>

namespace hipvmm {
namespace detail {

/// True if `Range` names device memory of T: a device_span, or a container that has span().
template <typename Range, typename T>
inline constexpr bool is_device_range_v = std::is_convertible_v<const Range&, device_span<const T>>;

/// True if `Range` is a contiguous range of T that the host can index. Containers in device memory
/// cannot be indexed, or return a proxy.
template <typename Range, typename T, typename = void>
struct is_host_range : std::false_type {};
template <typename Range, typename T>
struct is_host_range<Range, T,
                     std::void_t<decltype(std::data(std::declval<const Range&>())),
                                 decltype(std::declval<const Range&>()[0])>>
    : std::bool_constant<
          std::is_convertible_v<decltype(std::data(std::declval<const Range&>())), const T*> &&
          std::is_same_v<decltype(std::declval<const Range&>()[0]), const T&>> {};
template <typename Range, typename T>
inline constexpr bool is_host_range_v = is_host_range<Range, T>::value;

}  // namespace detail

}  // namespace hipvmm
