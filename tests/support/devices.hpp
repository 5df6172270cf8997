// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/core/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::test {

/// The device that tests use where any will do.
inline constexpr device_ref first_device{0};

/// The unit of every chunk and reservation on the first device.
inline std::size_t granule() { return granularity_of(first_device).minimum; }

/// Another device that reaches the memory of `device` and is reached by it.
inline std::optional<device_ref> peer_of(device_ref device) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref other{ordinal};
    if (other != device && other.can_access_peer(device) && device.can_access_peer(other))
      return other;
  }
  return std::nullopt;
}

/// A device that cannot reach the memory of `device`.
inline std::optional<device_ref> stranger_to(device_ref device) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref other{ordinal};
    if (!other.can_access_peer(device)) return other;
  }
  return std::nullopt;
}

}  // namespace hipvmm::test

/// Declares `name`, a device for which `finder` finds one; else says why the case ends here.
#define HIPVMM_REQUIRE_DEVICE(name, finder, what)   \
  const auto name##_found = (finder);               \
  if (!name##_found) {                              \
    MESSAGE("skipped: this machine has no ", what); \
    return;                                         \
  }                                                 \
  const ::hipvmm::device_ref name = *name##_found
