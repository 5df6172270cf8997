// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memory/transfer.hpp"
#include "race/race_clock.hpp"
#include "race/race_streams.hpp"

namespace hipvmm::host_provider {

/// Order by hipStreamWriteValue and hipStreamWaitValue: work after a wait comes after the work
/// before a write that meets its condition, whichever was submitted first. Not thread-safe.
class race_values {
 public:
  void await(const stream_queue& stream, const value_wait_request& wait, race_streams& streams);
  void write(const stream_queue& stream, const value_write_request& write, race_streams& streams);
  /// Other work writes these bytes, or they end: no number written before lets a wait go on.
  void forget(address start, address end);

 private:
  struct written {
    unsigned width;
    std::uint64_t value;
    race_clock before;  // the predecessors of the write
  };
  struct waiting {
    std::weak_ptr<const stream_queue> stream;
    value_wait_request wait;
  };

  std::map<address, written> written_;  // the last one at each address
  std::vector<waiting> waiting_;        // for writes to come
};

}  // namespace hipvmm::host_provider
