// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "bench/support/measure.hpp"

namespace bench {

/// The memory that sleeps, beside the settings of all programs.
struct sleep_shape {
  std::size_t bytes = 0;
  std::size_t chunk = 0;  ///< bytes of a chunk, and of an allocation of the other method
};

// The scenarios of sleep_bench, each with its question in its own file, and the names by which bars
// find their rows.
[[nodiscard]] std::vector<measurement> measure_empty_sleep(const settings& chosen,
                                                           const sleep_shape& shape);
[[nodiscard]] std::vector<measurement> measure_region_contents(const settings& chosen,
                                                               const sleep_shape& shape);
[[nodiscard]] std::vector<measurement> measure_pool_contents(const settings& chosen,
                                                             const sleep_shape& shape);
[[nodiscard]] std::vector<measurement> measure_copy_pieces(const settings& chosen,
                                                           const sleep_shape& shape);
[[nodiscard]] std::vector<measurement> measure_pinning(const settings& chosen,
                                                       const sleep_shape& shape);

namespace scenario {
inline constexpr const char* suspend_nothing = "suspend, nothing kept";
inline constexpr const char* resume_nothing = "resume, nothing kept";
inline constexpr const char* suspend_contents = "suspend with contents";
inline constexpr const char* resume_contents = "resume with contents";
}  // namespace scenario

namespace name {
inline constexpr const char* raw_calls = "raw calls";
inline constexpr const char* region = "region";
inline constexpr const char* pool = "vmm_pool_resource";
inline constexpr const char* pinned_copy = "one copy of pinned memory";
inline constexpr const char* pool_pinned_copy = "one copy of pinned memory, beside the pool";
inline constexpr const char* kept = "region, pinned memory kept";
inline constexpr const char* pool_kept = "vmm_pool_resource, pinned memory kept";
inline constexpr const char* fresh = "region, pinned memory each time";
inline constexpr const char* by_allocation = "a pinned copy and calls for each allocation";
}  // namespace name

}  // namespace bench
