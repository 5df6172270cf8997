// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <hipvmm/core/observers/memory_events.hpp>
#include "core/error.hpp"
#include "core/observers/observers.hpp"

namespace hipvmm::detail {

[[nodiscard]] std::uint64_t next_event_id() noexcept;

struct event_origin {
  memory_event_source source;
  std::uint64_t object;
  int device;
};

struct event_details {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  const void* stream = nullptr;
  int peer = -1;
  std::int64_t time_ns = 0;  ///< 0: now
};

[[nodiscard]] std::int64_t event_time() noexcept;

void send_event(const event_origin& from, memory_event_kind kind,
                const event_details& details) noexcept;

/// Receives changes of the process's device memory, in any thread, under any lock of the library.
struct memory_change_receiver {
  /// HIP gave `bytes` of the device, or took them back if negative.
  void (*changed)(int device, std::int64_t bytes) noexcept;
  /// An object has grown, was trimmed, or refused a request.
  void (*explained)(const memory_event& event) noexcept;
};
/// Null while nobody asks for pressure.
extern constinit std::atomic<const memory_change_receiver*> memory_changes;

void send_memory_change(int device, std::int64_t bytes) noexcept;
inline void note_memory_change(int device, std::int64_t bytes) noexcept {
  if (memory_changes.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    send_memory_change(device, bytes);
}

/// Runs `call` once in this thread, when its outermost events_wait ends. Returns whether it is the
/// first such request; nothing without an events_wait, because locks may be held.
[[nodiscard]] std::optional<bool> call_without_locks(void (*call)() noexcept) noexcept;

inline void report_event(const event_origin& from, memory_event_kind kind,
                         const event_details& details) noexcept {
  if (is_observed_by(observer::subscription) ||
      memory_changes.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    send_event(from, kind, details);
}

[[nodiscard]] inline std::uintptr_t event_address(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// While one lives, events of its thread for callbacks wait for its end, because a lock is held and
/// a callback may use the library. Rings get them at once.
class events_wait {
 public:
  events_wait() noexcept;
  ~events_wait();
  events_wait& operator=(events_wait&&) = delete;

 private:
  friend void send_event(const event_origin&, memory_event_kind, const event_details&) noexcept;
  struct waiting_event {
    std::uint64_t subscription;
    memory_event event;
  };
  const bool is_outermost_;
  std::vector<waiting_event> waiting_;
};

/// As events_wait, for reports to the error handler too. Declare it before a lock that functions of
/// the program may need.
class callbacks_wait {
  held_reports reports_;
  const reports_wait redirected_{reports_};
  const events_wait events_;
};

/// While one lives, its thread reports no events: probes hold a lock that a callback may need.
class events_pause {
 public:
  events_pause() noexcept;
  ~events_pause();
  events_pause& operator=(events_pause&&) = delete;
};

}  // namespace hipvmm::detail
