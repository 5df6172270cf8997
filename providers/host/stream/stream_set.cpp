// SPDX-License-Identifier: MIT
#include "stream/stream_set.hpp"

#include <algorithm>
#include <utility>

namespace hipvmm::host_provider {

std::shared_ptr<stream_queue> stream_set::create(stream_order order, int priority) {
  auto made = std::make_shared<stream_queue>(owner_, device_, order, priority);
  const std::lock_guard lock{mutex_};
  created_.push_back(made);
  return made;
}

void stream_set::retire(stream_queue& drained) {
  if (stream_observer* const observer = owner_.observer()) observer->retire(drained);
  std::shared_ptr<stream_queue> last;  // dies after the lock
  const std::lock_guard lock{mutex_};
  const hipError_t error = drained.take_error();
  hipError_t& left_over = left_over_[drained.order() == stream_order::non_blocking ? 1 : 0];
  if (left_over == hipSuccess) left_over = error;
  const auto at = std::find_if(created_.begin(), created_.end(),
                               [&drained](const auto& each) { return each.get() == &drained; });
  if (at == created_.end()) return;
  last = std::move(*at);
  created_.erase(at);
}

void stream_set::overlook(const stream_queue& leaving) {
  if (stream_observer* const observer = owner_.observer()) observer->overlook(leaving);
  const std::lock_guard lock{mutex_};
  created_.erase(std::remove_if(created_.begin(), created_.end(),
                                [&leaving](const auto& each) { return each.get() == &leaving; }),
                 created_.end());
}

std::vector<position> stream_set::ahead_of(const stream_queue& target) const {
  switch (target.order()) {
    case stream_order::null:
      return ends(false);
    case stream_order::blocking:
      if (!null_->idle()) return {null_->end()};
      return {};
    default:
      return {};
  }
}

std::vector<position> stream_set::ends(bool non_blocking_too) const {
  std::vector<position> found;
  if (!null_->idle()) found.push_back(null_->end());
  const std::lock_guard lock{mutex_};
  for (const std::shared_ptr<stream_queue>& each : created_) {
    if (!non_blocking_too && each->order() == stream_order::non_blocking) continue;
    if (!each->idle()) found.push_back(each->end());
  }
  return found;
}

void stream_set::wait_all() const {
  const host_wait noted{owner_.observer(), device_};
  for (const position& each : ends(true)) {
    const stream_queue::device_wait_mark held{*each.queue};
    each.wait();
  }
  noted.is_over();
}

hipError_t stream_set::take_errors(bool non_blocking_too) {
  hipError_t first = null_->take_error();
  const std::lock_guard lock{mutex_};
  const auto note = [&first](hipError_t error) {
    if (first == hipSuccess) first = error;
  };
  for (const std::shared_ptr<stream_queue>& each : created_) {
    if (non_blocking_too || each->order() == stream_order::blocking) note(each->take_error());
  }
  note(std::exchange(left_over_[0], hipSuccess));
  if (non_blocking_too) note(std::exchange(left_over_[1], hipSuccess));
  return first;
}

}  // namespace hipvmm::host_provider
