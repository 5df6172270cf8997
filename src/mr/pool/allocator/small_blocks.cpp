// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/small_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace hipvmm::mr::pool {

void block_map::add(std::size_t offset, std::size_t class_index, std::size_t user, bool cached) {
  std::atomic<entry*>& stretch_at = stretches_[offset / stretch];
  if (stretch_at.load(std::memory_order_acquire) == nullptr) {
    sparse_array<entry> made{entries_per_stretch};
    entry* none = nullptr;
    if (stretch_at.compare_exchange_strong(none, made.get())) static_cast<void>(made.release());
  }
  place_for(offset, class_index)
      ->store(word(offset, {class_index, user, cached}), std::memory_order_relaxed);
}

thread_cache::thread_cache() : slots_(places.total) {}

std::size_t thread_cache::take(std::size_t class_index, std::size_t* offsets,
                               std::size_t count) noexcept {
  const std::lock_guard lock{lock_};
  std::uint32_t& size = sizes_[class_index];
  const std::size_t taken = std::min<std::size_t>(count, size);
  std::size_t* const begin = slots_.data() + places.first[class_index];
  std::copy_n(begin, taken, offsets);
  std::copy(begin + taken, begin + size, begin);
  size -= static_cast<std::uint32_t>(taken);
  return taken;
}

std::size_t thread_cache::take_next(std::size_t& class_index, std::size_t* offsets) noexcept {
  const std::lock_guard lock{lock_};
  while (const std::uint64_t left = filled_ >> class_index) {
    class_index += static_cast<std::size_t>(std::countr_zero(left));
    filled_ &= ~(std::uint64_t{1} << class_index);
    const std::size_t taken = std::exchange(sizes_[class_index], 0);
    if (taken == 0) continue;
    std::copy_n(slots_.data() + places.first[class_index], taken, offsets);
    return taken;
  }
  class_index = size_class_count;
  return 0;
}

std::size_t thread_cache::pop_block(std::size_t bytes) noexcept {
  const std::lock_guard lock{lock_};
  if (here_.bytes != bytes) return npos;
  const std::size_t offset = here_.offset;
  blocks_[oldest_block_] = here_;
  oldest_block_ = (oldest_block_ + 1) % blocks_.size();
  here_ = {};
  return offset;
}

void thread_cache::remember(block_at one) noexcept {
  const std::lock_guard lock{lock_};
  blocks_[oldest_block_] = one;
  oldest_block_ = (oldest_block_ + 1) % blocks_.size();
}

bool thread_cache::push_block(block_at one, block_at& evicted,
                              std::atomic<int>* blocks_in_transit) noexcept {
  const std::lock_guard lock{lock_};
  for (block_at& each : blocks_) {
    if (each.offset != one.offset || each.bytes != one.bytes) continue;
    each = {};
    evicted = here_;
    if (evicted.bytes != 0 && blocks_in_transit != nullptr) ++*blocks_in_transit;
    here_ = one;
    return true;
  }
  return false;
}

thread_cache::block_at thread_cache::take_block(std::atomic<int>* blocks_in_transit) noexcept {
  const std::lock_guard lock{lock_};
  if (here_.bytes != 0 && blocks_in_transit != nullptr) ++*blocks_in_transit;
  return std::exchange(here_, {});
}

}  // namespace hipvmm::mr::pool
