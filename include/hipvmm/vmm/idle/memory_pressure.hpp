// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <hipvmm/core/error.hpp>
#include <hipvmm/core/observers/memory_events.hpp>

namespace hipvmm {

enum class pressure_level { none, low, high, critical };

/// A string with static storage.
[[nodiscard]] const char* to_string(pressure_level level) noexcept;

/// A watermark of free memory: the larger of a fraction of the whole and a number of bytes. If both
/// are zero, its level is never reached.
struct free_watermark {
  double fraction = 0;
  std::size_t bytes = 0;
};

enum class pressure_delivery {
  /// A thread of the library, which all subscriptions share.
  library_thread,
  /// The thread whose request passed the mark, at the end of the request, with no lock held. The
  /// library's thread instead if it saw the crossing first, if a thread of the library caused it,
  /// if the null stream is captured, or if the request is for a graph.
  requesting_thread,
};

/// Three bounds limit the largest request of this process: the free memory of the device, the room
/// in its memory_budget there, and `limit`. Each has its level, and the highest one counts.
struct pressure_options {
  /// A level begins when no more than this is free.
  free_watermark low{0.25, 0};
  free_watermark high{0.10, 0};
  free_watermark critical{0.03, 0};
  /// A level ends when more is free than its mark plus this fraction of the whole.
  double hysteresis = 0.02;
  /// Most bytes of chunks that the program wants to hold there; it refuses nothing; 0: no bound.
  std::size_t limit = 0;
  /// Whether free memory of the device counts: hipMemGetInfo's last answer, with later changes by
  /// this process. A request renews the answer if they cross a mark, or after 100 ms.
  bool device_memory = true;
  /// Also measures each time that this has passed, in the library's thread, to see changes by other
  /// processes and by code that does not use hipvmm; zero: never.
  std::chrono::milliseconds interval{0};
  pressure_delivery delivery = pressure_delivery::library_thread;
};

/// The memory that a process can get of one device, at the moment of a crossing.
struct pressure_note {
  int device;  ///< ordinal
  pressure_level level;
  pressure_level previous;  ///< of the note before; in now() equal to `level`
  /// The bound with the highest level; of several, the one with least free.
  exhausted bound;
  std::size_t total_bytes;  ///< of `bound`
  std::size_t free_bytes;   ///< of `bound`
  std::size_t held_bytes;   ///< chunks that this process has of the device
  /// Of `held_bytes`, the most that other objects would release for a request: kept and prepared
  /// chunks, free memory of pools and arenas, and memory that an evictable would give.
  std::size_t idle_bytes;
  std::size_t largest_request;  ///< the largest that would fit, if all of that is released
  /// The last event since the note before that changed the process's memory there: grow, trim or
  /// out_of_memory; empty if others changed it. A slot_arena is reported as its region; `mapping`
  /// is of chunks that no object has reported.
  std::optional<memory_event> reason;
};

}  // namespace hipvmm
