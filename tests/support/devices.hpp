// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <optional>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::test {

/// The device that tests use if any will do.
inline constexpr device_ref first_device{0};

/// On the host provider the one that first_device reaches.
inline constexpr device_ref second_device{1};
/// The unit of every chunk, reservation and region on the first device.
inline std::size_t granule() {
  const std::size_t unit = capability_of(first_device).minimum_granularity();
  return unit != 0 ? unit : 2 * MiB;
}

/// Marks a case about chunks, which main() leaves out if there are none:
/// TEST_CASE("claim" * needs_virtual_memory).
inline const doctest::test_suite needs_virtual_memory{"needs virtual memory"};
/// Marks a case about regions on hipMalloc, which main() leaves out elsewhere.
inline const doctest::test_suite needs_fallback{"on hipMalloc"};

/// Whether regions of the first device hold one allocation of hipMalloc, which growth replaces.
inline bool on_fallback() { return capability_of(first_device).path() == memory_path::fallback; }

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

/// Ends the case, and says why, on a machine with one device.
#define HIPVMM_REQUIRE_TWO_DEVICES()                       \
  if (::hipvmm::device_count() < 2) {                      \
    MESSAGE("skipped: this machine has no second device"); \
    return;                                                \
  }                                                        \
  static_assert(true)
