// SPDX-License-Identifier: MIT
#include "stream/stream_clock.hpp"

#include <algorithm>

namespace hipvmm::host_provider {
namespace {

template <class A, class B>
bool same_owner(const A& a, const B& b) noexcept {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

void stream_clock::include(const std::shared_ptr<stream_queue>& queue, std::uint64_t sequence) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&queue](const entry& each) {
    return same_owner(each.queue, queue);
  });
  if (at != entries_.end()) {
    at->sequence = std::max(at->sequence, sequence);
    return;
  }
  forget_gone_streams();
  entries_.push_back({queue, sequence});
}

void stream_clock::include(const stream_clock& other) {
  for (const entry& each : other.entries_) {
    if (const std::shared_ptr<stream_queue> queue = each.queue.lock()) {
      include(queue, each.sequence);
    }
  }
}

bool stream_clock::covers(const std::shared_ptr<stream_queue>& queue,
                          std::uint64_t sequence) const noexcept {
  return std::any_of(entries_.begin(), entries_.end(), [&](const entry& each) {
    return same_owner(each.queue, queue) && each.sequence >= sequence;
  });
}

void stream_clock::forget_gone_streams() {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [](const entry& each) { return each.queue.expired(); }),
                 entries_.end());
}

}  // namespace hipvmm::host_provider
