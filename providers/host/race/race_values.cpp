// SPDX-License-Identifier: MIT
#include "race/race_values.hpp"

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
  written_.insert_or_assign(write.memory.start, written{write.value, before});
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

}  // namespace hipvmm::host_provider
