// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/support/measure.hpp"

namespace bench {

/// The options of a whole run of pool_bench.
struct pool_settings {
  settings common;                      ///< the device, runs and repeats
  double sample_seconds = 0;            ///< how long a sample of many pairs is to take, about
  std::vector<std::size_t> sizes = {};  ///< of pairs, in bytes
  std::size_t holes = 0;
  std::vector<int> threads = {};
  std::size_t random_steps = 0;
  std::size_t random_max_bytes = 0;   ///< largest request
  std::size_t random_live_bytes = 0;  ///< most that is held at a time
  std::size_t handover_bytes = 0;
  std::size_t create_bytes = 0;
  std::chrono::milliseconds create_pause{0};  ///< before new memory is asked for
  std::size_t trim_bytes = 0;                 ///< idle when the trim begins
  std::size_t loop_bytes = 0;
  std::size_t loop_steps = 0;
};

/// Most that a hole takes with the block in use behind it.
inline constexpr std::size_t bytes_for_hole = 100 << 10U;

// The scenarios of pool_bench, each with its question in its own file, and the names by which bars,
// tables and the picture find their rows. A row's `seconds` are of one step, mostly one pair of
// allocate and deallocate; `steps` says of how many in a row each is the mean.

[[nodiscard]] std::vector<measurement> measure_pairs(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_threads(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_random(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_handover(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_create(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_trim(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_loop(const pool_settings& chosen);
[[nodiscard]] std::vector<measurement> measure_events(const pool_settings& chosen);

namespace scenario {
inline constexpr const char* pairs = "pairs";
inline constexpr const char* pairs_with_holes = "pairs among holes";
inline constexpr const char* in_turn = "40 KiB to 8 MiB in turn";
inline constexpr const char* in_turn_with_holes = "40 KiB to 8 MiB in turn among holes";
inline constexpr const char* own_streams = "threads with streams of their own";
inline constexpr const char* one_stream = "threads on one stream";
inline constexpr const char* random_sizes = "random sizes";
inline constexpr const char* handover_followed = "hand-over, stream made to wait";
inline constexpr const char* handover_passed = "hand-over, work has passed";
inline constexpr const char* handover_internal = "hand-over, pool makes it wait";
inline constexpr const char* handover_refused = "hand-over, all switches off";
inline constexpr const char* create = "new memory";
inline constexpr const char* create_small = "new memory in 256 blocks";
inline constexpr const char* moved = "moved chunks";
inline constexpr const char* taken = "one block, new or from another pool";
inline constexpr const char* beside_trim = "pairs beside a trim";
inline constexpr const char* trim = "trim";
inline constexpr const char* events = "pairs with memory events";
inline constexpr const char* loop = "loop of allocate, fill, free";
}  // namespace scenario

}  // namespace bench
