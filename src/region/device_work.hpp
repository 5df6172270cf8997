// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include "core/owner_process.hpp"

namespace hipvmm::detail {

using device_list = std::vector<device_ref>;

struct memory_users {
  device_list devices;  // with a right to some chunk
  device_list owners;   // with memory of some chunk
};
[[nodiscard]] memory_users users_of(const access_map& rights);

/// The devices that may have work on the memory: those with a right, then those named by a copy of
/// the library together with an owner (runtime/peer_copies.hpp).
[[nodiscard]] device_list devices_of(const memory_users& users);

/// Records an event in `stream`; empty if its device is none of `devices`. Tries an event of each,
/// because HIP before 6 does not report the device of a stream, but refuses other devices' events.
[[nodiscard]] std::optional<event> record_event_in(stream_ref stream, const device_list& devices);

/// Waits for all work of `devices`. Returns false if HIP refuses the wait, as during captures: a
/// later wait may succeed. Another failure is reported unless `has_reported`, which becomes true.
[[nodiscard]] bool wait_for(const device_list& devices, bool& has_reported) noexcept;
/// The same for devices_of(users).
[[nodiscard]] bool wait_for(const memory_users& users, bool& has_reported) noexcept;
/// The same, but throws hip_error, among others if a capture forbids the wait.
void wait_for_users(const memory_users& users);

/// Before rights to mapped memory change: waits as wait_for_users() if
/// runtime_rules::wait_before_grant, because work might access other pages meanwhile. Work
/// submitted later is not covered. Throws: as wait_for_users().
void wait_before_grant(const memory_users& users);

/// Makes wait_before_grant() in its thread return at once: the caller has waited, and holds a lock.
using waited_before_grant = thread_mark<struct waited_before_grant_kind>;

/// For waits that HIP refuses, as during captures.
inline constexpr std::chrono::milliseconds capture_patience{100};

/// Repeats wait_for() until HIP accepts it, for capture_patience. Returns whether it waited.
template <typename Devices>
[[nodiscard]] bool wait_past_captures(const Devices& devices) noexcept {
  const auto end = std::chrono::steady_clock::now() + capture_patience;
  bool has_reported = false;
  while (!wait_for(devices, has_reported)) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace hipvmm::detail
