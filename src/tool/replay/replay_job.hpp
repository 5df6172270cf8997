// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "tool/replay/replay_failures.hpp"
#include "tool/replay/replay_subject.hpp"
#include "tool/replay/replay_trace.hpp"

namespace hipvmm::tool {

enum class replay_streams { real, one };

struct replay_options {
  device_ref device{0};
  replay_streams streams = replay_streams::real;
  /// Bytes to check of each block; none: no check.
  std::optional<std::size_t> check_bytes = std::nullopt;
  /// Windows of the trace; held memory is sampled at the highest and the last event of each. 0:
  /// none.
  std::size_t sample_windows = 0;
  std::size_t epochs = 1;  ///< replays of the whole trace; at least 1
  /// Bytes of each block that its stream fills right after the allocation, so that work is in
  /// flight when memory is deallocated and reused; none: streams have no work.
  std::optional<std::size_t> busy_bytes = std::nullopt;
  std::function<void(std::size_t events)> on_progress = {};
};

struct replay_sample {
  double seconds;  ///< of recorded time
  std::size_t requested;
  memory_held held;
};

struct call_latency {
  std::size_t calls = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t p50_ns = 0;  ///< the median
  std::uint64_t p99_ns = 0;
  std::uint64_t longest_ns = 0;
};

struct replay_epoch {
  call_latency allocate = {};
  call_latency deallocate = {};  ///< of the blocks that the trace frees
  std::size_t peak_requested = 0;
  std::size_t peak_physical = 0;
  double seconds = 0;             ///< from the first event until the last call has returned
  double seconds_until_done = 0;  ///< from the first event until all streams are idle
};

/// The least value that a part (0 to 1) of the values does not exceed; 0 if there are none.
[[nodiscard]] inline std::uint64_t percentile_of(const std::vector<std::uint64_t>& ascending,
                                                 double part) {
  if (ascending.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(std::ceil(part * static_cast<double>(ascending.size())));
  return ascending[std::clamp<std::size_t>(rank, 1, ascending.size()) - 1];
}

[[nodiscard]] inline call_latency summarize_calls(std::vector<std::uint64_t>& nanoseconds) {
  std::sort(nanoseconds.begin(), nanoseconds.end());
  return {nanoseconds.size(),
          std::accumulate(nanoseconds.begin(), nanoseconds.end(), std::uint64_t{0}),
          percentile_of(nanoseconds, 0.5), percentile_of(nanoseconds, 0.99),
          percentile_of(nanoseconds, 1)};
}

struct replay_coverage {
  std::size_t blocks;
  std::size_t bytes;
  std::size_t bytes_looked_at;
};

struct replay_result {
  std::size_t streams = 0;
  std::size_t peak_requested = 0;  ///< in any epoch
  std::size_t peak_physical = 0;   ///< in any epoch
  std::vector<replay_epoch> epochs = {};
  /// Ascending nanoseconds of allocation and free together, of blocks that the trace frees.
  std::vector<std::uint64_t> pair_ns = {};
  std::vector<driver_calls> calls = {};
  double seconds = 0;  ///< from the first event until all streams are idle
  replay_failures failures = {};
  std::optional<replay_coverage> checked = std::nullopt;
  std::vector<replay_sample> samples = {};

  /// 0 without pairs.
  [[nodiscard]] std::uint64_t pair_percentile(double part) const;
  [[nodiscard]] std::uint64_t driver_call_count() const;
  [[nodiscard]] double driver_seconds() const;
};

/// Sends the requests of the trace to the subject, in the order of its rows, as fast as it goes,
/// from one thread. If a block is freed in another stream than its own, an event orders the two.
/// Blocks alive after the last row of an epoch are freed then, and all streams are synchronized
/// before the next epoch. Requests that are out of memory are failures, and so are the library's
/// reports to the error handler. Throws: std::runtime_error that names the row for other failures.
[[nodiscard]] replay_result replay(const trace& recorded, replay_subject& subject,
                                   const replay_options& options);

}  // namespace hipvmm::tool
