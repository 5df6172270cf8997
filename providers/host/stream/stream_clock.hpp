// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace hipvmm::host_provider {

class stream_queue;

/// The predecessors of a stream's next operation: how many operations of each other stream it waits
/// for. Not thread-safe.
class stream_clock {
 public:
  void include(const std::shared_ptr<stream_queue>& queue, std::uint64_t sequence);
  void include(const stream_clock& other);
  [[nodiscard]] bool covers(const std::shared_ptr<stream_queue>& queue,
                            std::uint64_t sequence) const noexcept;

 private:
  struct entry {
    std::weak_ptr<stream_queue> queue;  // weak: two streams may have waited for each other
    std::uint64_t sequence;
  };
  void forget_gone_streams();

  std::vector<entry> entries_;
};

}  // namespace hipvmm::host_provider
