// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bench/support/measure.hpp"
#include "trace_contenders.hpp"

namespace bench {

struct trace_settings {
  settings common;  ///< the device and the number of repetitions
  std::size_t epochs = 2;
  std::optional<std::size_t> busy_bytes = std::nullopt;
};

/// Replays one trace on all contenders in turns. One row for each epoch of each contender: its
/// seconds are of all allocate and deallocate calls, `figures` has the rest. The first contender is
/// the baseline.
[[nodiscard]] std::vector<measurement> measure_trace(const hipvmm::tool::trace& recorded,
                                                     const std::vector<trace_contender>& contenders,
                                                     const trace_settings& chosen);

/// The names of `figures`.
namespace figure {
inline constexpr const char* epoch = "epoch";
inline constexpr const char* streams = "streams";
inline constexpr const char* busy_bytes = "busy_bytes";
inline constexpr const char* allocations = "allocations";
inline constexpr const char* allocate_ms = "allocate_ms";
inline constexpr const char* deallocate_ms = "deallocate_ms";
inline constexpr const char* allocate_p50 = "allocate_p50_ns";
inline constexpr const char* allocate_p99 = "allocate_p99_ns";
inline constexpr const char* allocate_longest = "allocate_longest_ns";
inline constexpr const char* deallocate_p50 = "deallocate_p50_ns";
inline constexpr const char* deallocate_p99 = "deallocate_p99_ns";
inline constexpr const char* deallocate_longest = "deallocate_longest_ns";
inline constexpr const char* peak_requested = "peak_requested";
inline constexpr const char* peak_physical = "peak_physical";
inline constexpr const char* peak_ratio = "peak_ratio";
inline constexpr const char* submitted_ms = "submitted_ms";  ///< until the last call has returned
inline constexpr const char* done_ms = "done_ms";            ///< until the GPU is done, when busy
}  // namespace figure

}  // namespace bench
