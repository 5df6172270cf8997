// SPDX-License-Identifier: MIT
#include "region/chunk_prefetch.hpp"

#include <utility>

namespace hipvmm::detail {

void chunk_prefetch::submit(const order& wanted) noexcept {
  order_ = wanted;
  if (!task_.submit()) note_failure();
}

bool chunk_prefetch::is_ready_within(std::size_t offset, std::size_t bytes) const noexcept {
  if (ready_.empty()) return false;
  const auto& [first, held] = *ready_.begin();
  return first < offset + bytes && offset < first + held.bytes();
}

void chunk_prefetch::run() noexcept {
  try {
    backing_map made = make_(*order_);
    order_.reset();
    const std::lock_guard lock{mutex_};
    ready_ = std::move(made);
    is_offered_ = true;
  } catch (...) {
    // The commit that needs the chunk meets the same failure, or finds it gone.
    note_failure();
  }
}

void chunk_prefetch::note_failure() noexcept {
  order_.reset();
  may_start_ = false;
  ++failures_;
}

}  // namespace hipvmm::detail
