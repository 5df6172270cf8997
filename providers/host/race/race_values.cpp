// SPDX-License-Identifier: MIT
#include "race/race_values.hpp"

#include <algorithm>
#include <iterator>

namespace hipvmm::host_provider {

void race_values::await(const stream_queue& stream, const value_wait_request& wait,
                        race_streams& streams) {
  const auto found = written_.find(wait.memory.start);
  if (found != written_.end() && is_met(wait, found->second.value)) {
    streams.follow(stream, found->second.before);
  } else {
    waiting_.push_back({stream.weak_from_this(), wait});
  }
}

void race_values::write(const stream_queue& stream, const value_write_request& write,
                        race_streams& streams) {
  const race_clock before = streams.place(stream);
  forget(write.memory.start, write.memory.start + write.width);
  written_.emplace(write.memory.start, written{write.width, write.value, before});
  std::erase_if(waiting_, [&](const waiting& each) {
    const std::shared_ptr<const stream_queue> waits = each.stream.lock();
    if (waits == nullptr) return true;
    if (each.wait.memory.start != write.memory.start || !is_met(each.wait, write.value)) {
      return false;
    }
    streams.follow(*waits, before);
    return true;
  });
}

void race_values::forget(address start, address end) {
  constexpr address widest = sizeof(std::uint64_t);
  auto at = written_.lower_bound(start - std::min(start, widest - 1));
  while (at != written_.end() && at->first < end) {
    at = at->first + at->second.width > start ? written_.erase(at) : std::next(at);
  }
}

}  // namespace hipvmm::host_provider
