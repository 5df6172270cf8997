// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// The element type of a publication. An importer must name the same, or none.
struct element_identity {
  std::size_t size = 0;  ///< bytes of an element; zero: bytes without a type
  std::size_t align = 0;
  std::uint64_t tag = 0;  ///< a number of the program's own for the type and its layout

  friend bool operator==(const element_identity& a, const element_identity& b) noexcept {
    return a.size == b.size && a.align == b.align && a.tag == b.tag;
  }
};

template <typename T>
[[nodiscard]] constexpr element_identity elements_of(std::uint64_t tag = 0) noexcept {
  return {sizeof(T), alignof(T), tag};
}

struct publication_options {
  /// Further devices, at most 15, that own chunks, as of striped memory or after
  /// region::move_range(). Each importer needs all of them.
  std::vector<device_ref> other_devices = {};
  /// Served users (uid) in addition to the one of this process. Root is no exception.
  std::vector<unsigned> other_users = {};
  /// An importer with an unread answer, or a silent new connection, is dropped after so long.
  std::chrono::milliseconds patience{5000};
  /// The longest that an importer may keep withdrawn chunks; zero: until it disconnects. An
  /// importer that does not refresh within this time after the announcement, or does not unmap
  /// within this time after that refresh, is cut off: its next refresh throws ipc_error `expired`,
  /// and wait_until_withdrawn() waits for it no longer. It has the memory until it unmaps or ends.
  std::chrono::milliseconds lease{0};
  /// More importers are refused. Each costs the owner a descriptor. At most 64 further connections
  /// may be silent; then the oldest is closed.
  std::size_t max_importers = 256;
};

}  // namespace hipvmm
