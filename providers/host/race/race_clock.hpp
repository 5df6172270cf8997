// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stream/stream_observer.hpp"

namespace hipvmm::host_provider {

/// A vector clock: of each stream, the number of its operations that come before. Not thread-safe.
class race_clock {
 public:
  void include(stream_number stream, std::uint64_t count);
  /// Includes everything that comes before `other`.
  void include(const race_clock& other);

  [[nodiscard]] bool covers(stream_number stream, std::uint64_t count) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  template <class See>
  void visit(See&& see) const {
    for (const entry& each : entries_) see(each.stream, each.count);
  }
  template <class IsUseless>
  void forget_if(IsUseless&& is_useless) {
    std::erase_if(entries_, [&](const entry& each) { return is_useless(each.stream, each.count); });
  }

 private:
  struct entry {
    stream_number stream;
    std::uint64_t count;
  };
  std::vector<entry> entries_;  // by stream
};

}  // namespace hipvmm::host_provider
