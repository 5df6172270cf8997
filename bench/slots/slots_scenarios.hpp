// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

#include <hipvmm/container/slot_arena.hpp>
#include "bench/support/measure.hpp"

namespace bench {

/// The shape of the arenas, beside the settings of all programs.
struct slots_shape {
  std::size_t slots = 0;
  std::size_t planes = 0;
  std::size_t block = 0;  ///< bytes
  std::size_t steps = 0;  ///< blocks that each slot grows by
};

[[nodiscard]] inline hipvmm::slot_arena_options arena_of(const slots_shape& shape,
                                                         std::size_t prefetched) {
  hipvmm::slot_arena_options result;
  result.slots = shape.slots;
  result.planes = shape.planes;
  result.block_bytes = shape.block;
  result.bytes_per_slot = shape.steps * shape.block;
  result.prefetch_blocks = prefetched;
  return result;
}

[[nodiscard]] inline std::vector<std::size_t> all_slots(const slots_shape& shape) {
  std::vector<std::size_t> result(shape.slots);
  std::iota(result.begin(), result.end(), std::size_t{0});
  return result;
}

// The scenarios of slots_bench, each with its question in its own file, and the names by which bars
// find their rows.
[[nodiscard]] std::vector<measurement> measure_growth_step(const settings& chosen,
                                                           const slots_shape& shape);
[[nodiscard]] std::vector<measurement> measure_begin_again(const settings& chosen,
                                                           const slots_shape& shape);
[[nodiscard]] std::vector<measurement> measure_waste(const settings& chosen,
                                                     const slots_shape& shape);

namespace scenario {
inline constexpr const char* growth_step = "growth step of a batch";
inline constexpr const char* begin_again = "a batch ends and another begins";
inline constexpr const char* waste = "memory that is not used";
}  // namespace scenario

namespace name {
inline constexpr const char* raw_calls = "raw calls";
inline constexpr const char* prefetched = "slot_arena, prefetched";
inline constexpr const char* within = "slot_arena, within its blocks";
inline constexpr const char* not_prefetched = "slot_arena, not prefetched";
inline constexpr const char* vectors = "growable_device_vector for each slot and plane";
inline constexpr const char* same_slots = "slot_arena, the same slots";
inline constexpr const char* other_slots = "slot_arena, other slots";
inline constexpr const char* separate = "separate";
}  // namespace name

}  // namespace bench
