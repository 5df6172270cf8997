// SPDX-License-Identifier: MIT
#include "pool/mem_pool_block.hpp"

#include <algorithm>
#include <utility>

namespace hipvmm::host_provider {

void pool_block::lend(position from, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  loans_.erase(std::remove_if(loans_.begin(), loans_.end(),
                              [](const loan& each) { return each.until->reached(); }),
               loans_.end());
  loans_.push_back({std::move(from), std::nullopt, bytes});
  held_ = true;
}

bool pool_block::claim_back() noexcept {
  const std::lock_guard lock{mutex_};
  return std::exchange(held_, false);
}

void pool_block::restore_claim() noexcept {
  const std::lock_guard lock{mutex_};
  held_ = true;
}

std::shared_ptr<stream_queue> pool_block::lent_in() const {
  const std::lock_guard lock{mutex_};
  return loans_.back().from.queue;
}

void pool_block::wait_for_earlier_free() const {
  std::vector<position> ends;
  {
    const std::lock_guard lock{mutex_};
    for (const loan& each : loans_)
      if (each.until) ends.push_back(*each.until);
  }
  for (const position& end : ends) end.wait();
}

void pool_block::close_at(const std::optional<position>& until) {
  const std::lock_guard lock{mutex_};
  if (until) {
    loans_.back().until = until;
  } else {
    loans_.pop_back();
  }
}

std::size_t pool_block::bytes_held() const {
  const std::lock_guard lock{mutex_};
  return held_ ? loans_.back().bytes : 0;
}

std::size_t pool_block::bytes_reached() const {
  const std::lock_guard lock{mutex_};
  std::size_t bytes = 0;
  for (const loan& each : loans_) {
    if (each.from.reached() && !(each.until && each.until->reached())) {
      bytes = std::max(bytes, each.bytes);
    }
  }
  return bytes;
}

device_set pool_block::devices_with(right needed) const {
  const auto& given = needed == right::read ? rights_->readers : rights_->writers;
  return given.load(std::memory_order_relaxed) | rights_->opened.load(std::memory_order_relaxed);
}

}  // namespace hipvmm::host_provider
