// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hipvmm::tool {

struct trace_event {
  enum class action : std::uint8_t { allocate, free };

  action what;
  std::uint32_t row;          ///< in the file, from 1, the header's
  std::uint32_t block;        ///< index into trace::blocks
  std::uint32_t stream;       ///< from 0, in the order in which streams appear
  std::int64_t microseconds;  ///< since the first event
};

struct trace_block {
  std::size_t bytes;
  std::uint32_t row;
};

/// A recorded stream of requests, free of contradictions.
struct trace {
  std::string name;
  std::vector<trace_event> events;
  std::vector<trace_block> blocks;  ///< in the order of their allocation
  std::size_t streams = 0;
  std::size_t peak_requested = 0;        ///< most bytes alive at one time
  std::size_t recorded_failures = 0;     ///< rows "allocate failure", which are left out
  std::size_t empty_requests = 0;        ///< rows of 0 bytes, which are left out
  double seconds = 0;                    ///< from the first event to the last
  std::size_t late_rows = 0;             ///< rows with a time before that of an earlier row
  std::int64_t latest_microseconds = 0;  ///< the longest delay of one
};

/// Reads a CSV file, gzip'ed or not, '-' for standard input, by the columns Time, Action, Pointer,
/// Size and Stream; docs/reference/replay.md has the forms. Throws: std::runtime_error that names
/// the file, the row, the text found and the text expected.
[[nodiscard]] trace read_trace(const std::string& path);

}  // namespace hipvmm::tool
