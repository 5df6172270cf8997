// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// What the bytes of a publication are: both sides must name the same.
struct published_elements {
  std::size_t size = 0;   ///< bytes of an element; zero: bytes without a type
  std::size_t align = 0;  ///< its alignment; zero where `size` is
  std::uint64_t tag = 0;  ///< a number of the program's own for the type and its layout

  friend bool operator==(const published_elements& a, const published_elements& b) noexcept {
    return a.size == b.size && a.align == b.align && a.tag == b.tag;
  }
};

/// The elements of a vector of T.
template <typename T>
[[nodiscard]] constexpr published_elements elements_of(std::uint64_t tag = 0) noexcept {
  return {sizeof(T), alignof(T), tag};
}

/// What a publication has, and whom it serves.
struct publication_options {
  /// Devices besides the publication's own whose memory the chunks may be, 15 at most: those of
  /// striped memory, or where region::move_range() takes chunks. Each importer needs all of them.
  std::vector<device_ref> other_devices = {};
  /// Users (uid) that are served besides the one this process runs as. Root is no exception.
  std::vector<unsigned> other_users = {};
  /// The longest that an importer may leave an answer unread, or a new connection say nothing,
  /// before it is dropped.
  std::chrono::milliseconds patience{5000};
  /// How long an importer may keep chunks that were withdrawn. One that has not looked so long
  /// after the announcement that withdrew them is cut off, and one that has looked and not unmapped
  /// them so long after that: it no longer counts for wait_until_withdrawn(), and its next call
  /// throws ipc_error `expired`. Zero: as long as it is connected. Nobody can unmap in another
  /// process: the memory comes back when it does or ends.
  std::chrono::milliseconds lease{0};
  /// More importers are refused. Each costs the owner a descriptor. Connections that have said
  /// nothing yet do not count: 64 of them may wait, then the oldest is closed.
  std::size_t max_importers = 256;
};

}  // namespace hipvmm
