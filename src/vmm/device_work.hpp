// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <hipvmm/core/event.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm::detail {

using device_list = std::vector<device_ref>;

/// Every device whose work may use the memory: those with a right, then those without that the
/// library copied to or from the owner, see core/peer_copies.hpp.
[[nodiscard]] device_list devices_of(const access_map& rights);

/// An event of one of `devices` recorded in `stream`, which belongs to that device; none when it
/// belongs to no other. HIP before 6 does not tell whose a stream is, but refuses other devices'
/// events.
[[nodiscard]] std::optional<event> mark_in(stream_ref stream, const device_list& devices);

/// Waits for all work of `devices`; what fails is reported and waited for no longer. Returns false
/// where a capture forbids the wait: later it may be allowed.
[[nodiscard]] bool wait_for(const device_list& devices) noexcept;
/// The same for devices_of(rights).
[[nodiscard]] bool wait_for(const access_map& rights) noexcept;
/// Waits for all work of devices_of(rights). Throws: hip_error, among others where a capture
/// forbids the wait.
void wait_for_users(const access_map& rights);

/// How long callers wait for captures to end that forbid to wait for devices.
inline constexpr std::chrono::milliseconds capture_patience{100};

/// Repeats `wait`, a call of wait_for, until captures allow it or capture_patience is over. Returns
/// whether they did.
template <typename Wait>
[[nodiscard]] bool outlast_captures(Wait wait) noexcept {
  const auto end = std::chrono::steady_clock::now() + capture_patience;
  while (!wait()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace hipvmm::detail
