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

/// The devices that may use some memory; its chunks may differ in owners and rights.
struct memory_users {
  device_list devices;  // each has a right to some chunk
  device_list owners;   // each has memory of some chunk
};
[[nodiscard]] memory_users users_of(const access_map& rights);

/// Every device that may have work on the memory: those with a right, then those without one that
/// a copy of the library named together with an owner, see runtime/peer_copies.hpp.
[[nodiscard]] device_list devices_of(const memory_users& users);

/// Records in `stream` an event of its device, if that is one of `devices`; empty otherwise. HIP
/// before 6 does not report the device of a stream, but refuses other devices' events.
[[nodiscard]] std::optional<event> record_event_in(stream_ref stream, const device_list& devices);

/// Waits for all work of `devices`. Returns false if HIP refuses the wait, for example because of a
/// capture: a later wait may succeed. Another failure is reported unless `has_reported`, which
/// becomes true.
[[nodiscard]] bool wait_for(const device_list& devices, bool& has_reported) noexcept;
/// The same for devices_of(users).
[[nodiscard]] bool wait_for(const memory_users& users, bool& has_reported) noexcept;
/// The same, but throws hip_error, among others if a capture forbids the wait.
void wait_for_users(const memory_users& users);

/// Call before rights to mapped memory change: waits as wait_for_users() if
/// runtime_rules::wait_before_grant is set, because work may access other pages meanwhile. It does
/// not cover work that is submitted until the rights have changed. Throws: as wait_for_users().
void wait_before_grant(const memory_users& users);

/// While an object lives, wait_before_grant() in its thread returns at once: the caller has waited,
/// and holds a lock.
using waited_before_grant = thread_mark<struct waited_before_grant_kind>;

/// How long callers repeat waits that HIP refuses, as it does during captures.
inline constexpr std::chrono::milliseconds capture_patience{100};

/// Waits for all work of `devices`: a device list or memory_users. Repeats the wait until HIP does
/// not refuse it or capture_patience is over. Returns whether it waited.
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
