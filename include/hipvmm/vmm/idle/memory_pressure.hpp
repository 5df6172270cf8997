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

/// A mark of free memory: the larger of a fraction of the whole and `bytes`. If both are zero, its
/// level is never reached.
struct free_watermark {
  double fraction = 0;
  std::size_t bytes = 0;
};

enum class pressure_delivery {
  /// A thread of the library, which all subscriptions share.
  library_thread,
  /// The thread whose request passed the mark, at the end of the request, with no lock held. The
  /// library's thread instead if it saw the crossing first or caused it, if the null stream is
  /// captured, or if the request is for a graph.
  requesting_thread,
};

/// Three bounds limit this process's requests: the device's free memory, the room in its
/// memory_budget there, and `limit`. Each has its level, and the highest one counts.
struct pressure_options {
  /// A level begins when no more than this is free.
  free_watermark low{0.25, 0};
  free_watermark high{0.10, 0};
  free_watermark critical{0.03, 0};
  /// A level ends when more is free than its mark plus this fraction of the whole.
  double hysteresis = 0.02;
  /// Bytes of chunks that the program wants to hold there; a bound that refuses nothing. 0: none.
  std::size_t limit = 0;
  /// Whether the device's free memory is a bound: hipMemGetInfo's last answer with this process's
  /// later changes. A request renews the answer if they cross a mark, or after 100 ms.
  bool device_memory = true;
  /// Also measures after each interval, to see changes by others and without hipvmm; zero: never.
  std::chrono::milliseconds interval{0};
  pressure_delivery delivery = pressure_delivery::library_thread;
};

struct pressure_note {
  int device;  ///< ordinal
  pressure_level level;
  pressure_level previous;  ///< of the note before; in now() `level`
  /// The bound with the highest level; of several, with least free.
  exhausted bound;
  std::size_t total_bytes;  ///< of `bound`
  std::size_t free_bytes;   ///< of `bound`
  std::size_t held_bytes;   ///< chunks that this process has of the device
  /// Of `held_bytes`, the most that other objects would release for a request: kept and prepared
  /// chunks, and idle memory of pools, arenas and evictables.
  std::size_t idle_bytes;
  std::size_t largest_request;  ///< if all of that is released
  /// The last event since the note before, empty if others changed the memory: grow, trim or
  /// out_of_memory. Chunks that no object has reported are `mapping`.
  std::optional<memory_event> reason;
};

}  // namespace hipvmm
