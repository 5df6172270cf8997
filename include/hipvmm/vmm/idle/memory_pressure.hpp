// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <hipvmm/core/error.hpp>
#include <hipvmm/core/observers/memory_events.hpp>

namespace hipvmm {

/// How scarce memory is for this process.
enum class pressure_level { none, low, high, critical };

/// The name of the enumerator, a string with static storage.
[[nodiscard]] const char* to_string(pressure_level level) noexcept;

/// A watermark of free memory: the larger of a fraction of the whole and a number of bytes. Without
/// either its level is never reached.
struct free_watermark {
  double fraction = 0;
  std::size_t bytes = 0;
};

/// The thread that calls the callback.
enum class pressure_delivery {
  /// A thread of the library, which all subscriptions share.
  library_thread,
  /// The thread whose request passed the mark, when it has been served and no lock is held. The
  /// library's thread instead if it saw the crossing first, if its own call caused it, if the null
  /// stream is captured, or if the request is for a graph.
  requesting_thread,
};

/// The largest request of this process is limited by the free memory of the device, by the room in
/// its memory_budget there, and by `limit`. Each has its level, and the highest one counts.
struct pressure_options {
  /// A level begins when no more than this is free.
  free_watermark low{0.25, 0};
  free_watermark high{0.10, 0};
  free_watermark critical{0.03, 0};
  /// A level ends when more is free than its mark and this fraction of the whole.
  double hysteresis = 0.02;
  /// Bytes of chunks on the device that the program intends to hold at most. It refuses nothing;
  /// 0: none.
  std::size_t limit = 0;
  /// Whether free memory of the device counts, which other processes change. hipMemGetInfo is asked
  /// by the first of a request's changes that the last answer leads across a mark, and by any other
  /// one 100 ms after that answer.
  bool device_memory = true;
  /// Also looks after each such time, by the library's thread, to see changes by other processes
  /// and by code that does not use hipvmm; zero: not.
  std::chrono::milliseconds interval{0};
  pressure_delivery delivery = pressure_delivery::library_thread;
};

/// The memory that a process can get of one device, at the moment of a crossing.
struct pressure_note {
  int device;  ///< ordinal
  pressure_level level;
  pressure_level previous;  ///< as the note before said; the same in now()
  /// device_memory, budget or limit: the one of the highest level, of these the one with least
  /// left.
  exhausted bound;
  std::size_t total_bytes;  ///< of that
  std::size_t free_bytes;   ///< of that
  std::size_t held_bytes;   ///< chunks that this process has of the device
  /// Of these, the most that its other objects would release for a request: kept and prepared
  /// chunks, free memory of pools and arenas, and memory that an evictable would give.
  std::size_t idle_bytes;
  std::size_t largest_request;  ///< that would fit, if all of that is released
  /// The last event that changed the process's memory there since the note before: grow, trim or
  /// out_of_memory. Empty if others changed it. A slot_arena is reported as its region; `mapping`
  /// is of chunks that no object has reported.
  std::optional<memory_event> reason;
};

}  // namespace hipvmm
