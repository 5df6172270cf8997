// SPDX-License-Identifier: MIT
#include "mr/pool/block_allocator.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

#include "mr/pool/slow_path.hpp"

namespace hipvmm::mr::pool {

block_allocator::block_allocator(memory_backend& memory, fence_source& order, std::uintptr_t base)
    : memory_{memory},
      order_{order},
      base_{base},
      small_blocks_{memory.address_bytes()},
      space_{memory.address_bytes()} {}

std::string block_allocator::name() const {
  if (base_ == 0) return "a pool on slabs";
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "the pool at %#zx", base_);
  return text.data();
}

block* block_allocator::best_fit(stream_state& from, std::size_t bytes,
                                 std::size_t alignment) const noexcept {
  // Where hardly any block has the alignment, one that is large enough anyway is as good.
  constexpr int patience = 16;
  free_tree& tree = from.free();
  const auto fits = [&](const block& one) {
    return aligned(one.offset, alignment) + bytes <= one.end();
  };
  auto at = tree.lower_bound(fit_key{bytes, 0});
  for (int looked = 0; at != tree.end() && looked < patience; ++at, ++looked) {
    if (fits(*at)) return &*at;
  }
  if (at != tree.end()) at = tree.lower_bound(fit_key{bytes + alignment - unit, 0});
  return at == tree.end() ? nullptr : &*at;
}

block* block_allocator::best_fit_for(stream_state& user, std::size_t bytes,
                                     std::size_t alignment) noexcept {
  block* const found = best_fit(user, bytes, alignment);
  if (user.is_idle() || idle().free().empty()) return found;
  block* const other = best_fit(idle(), bytes, alignment);
  return other != nullptr && (found == nullptr || other->bytes < found->bytes) ? other : found;
}

void block_allocator::take_whole(block& from) noexcept {
  free_tree& tree = from.owner->free();
  tree.erase(tree.iterator_to(from));
  from.state = block_state::busy;
}

block& block_allocator::take(block& from, std::size_t at, std::size_t bytes) noexcept {
  free_tree& tree = from.owner->free();
  tree.erase(tree.iterator_to(from));
  block* taken = &from;
  if (at != from.offset) {
    taken = &space_.cut(from, at - from.offset);
    tree.insert(from);
  }
  if (bytes != taken->bytes) tree.insert(space_.cut(*taken, bytes));
  taken->state = block_state::busy;
  return *taken;
}

void block_allocator::make_used(block& taken, stream_state& user) noexcept {
  taken.state = block_state::used;
  taken.owner = &user;
  space_.enlist(taken);
  counters_.used_bytes += taken.bytes;
  counters_.used_high = std::max(counters_.used_high, counters_.used_bytes);
}

void block_allocator::make_free(block& loose) noexcept {
  block* joined = &loose;
  // Idle memory beside it becomes the stream's again, until that has passed: one block serves more
  // than two, and what streams free lies mostly where they took it from idle memory.
  const auto joins = [&loose](const block* other) {
    return other != nullptr && other->state == block_state::free &&
           (other->owner == loose.owner || other->owner->is_idle());
  };
  const auto leave_tree = [](block& one) {
    free_tree& tree = one.owner->free();
    tree.erase(tree.iterator_to(one));
  };
  loose.state = block_state::free;
  if (joins(loose.next)) {
    leave_tree(*loose.next);
    loose.epoch = std::max(loose.epoch, loose.next->epoch);
    space_.join_next(loose);
  }
  if (joins(loose.previous)) {
    joined = loose.previous;
    leave_tree(*joined);
    joined->owner = loose.owner;
    joined->epoch = std::max(joined->epoch, loose.epoch);
    space_.join_next(*joined);
  }
  joined->owner->free().insert(*joined);
}

void block_allocator::make_unmapped(block& loose) noexcept {
  const auto is_unmapped = [](const block* other) {
    return other != nullptr && other->state == block_state::unmapped;
  };
  loose.state = block_state::unmapped;
  if (is_unmapped(loose.next)) space_.join_next(loose);
  if (is_unmapped(loose.previous)) space_.join_next(*loose.previous);
}

std::optional<std::size_t> block_allocator::allocate(stream_state& user, std::size_t bytes,
                                                     std::size_t alignment) {
  {
    const state_lock lock{state_mutex_};
    space_.prepare_for(2);
    block* const found = best_fit_for(user, bytes, alignment);
    if (found != nullptr) {
      block& taken = take(*found, aligned(found->offset, alignment), bytes);
      make_used(taken, user);
      ++counters_.served[static_cast<std::size_t>(pool_source::own_stream)];
      return taken.offset;
    }
  }
  return slow_path{*this, user, bytes, alignment}.serve();
}

bool block_allocator::take_back(stream_state& user, std::size_t offset,
                                std::size_t bytes) noexcept {
  block* const given = space_.find(offset);
  if (given == nullptr || given->bytes != bytes) return false;
  space_.strike(*given);
  growths_in_a_row_ = 0;
  counters_.used_bytes -= bytes;
  given->owner = &user;
  given->epoch = user.epoch();
  make_free(*given);
  return true;
}

bool block_allocator::deallocate(stream_state& user, std::size_t offset,
                                 std::size_t bytes) noexcept {
  if (!remove_small_block(offset, bytes)) return false;
  const state_lock lock{state_mutex_};
  return take_back(user, offset, bytes);
}

void block_allocator::reserve(std::size_t bytes) {
  if (bytes == 0) return;
  // Taken and given back: what is backed stays.
  const std::optional<std::size_t> at = allocate(idle(), bytes, unit);
  if (at) deallocate(idle(), *at, bytes);
}

block_allocator::trimmed block_allocator::trim_some(std::size_t bytes_to_keep) {
  if (waiting_slow_paths_.load(std::memory_order_relaxed) != 0) return {0, true};
  const trimmed some = slow_path{*this, idle(), 0, unit}.trim(bytes_to_keep);
  memory_.release_detached_unlocked();
  return some;
}

std::size_t block_allocator::trim(std::size_t bytes_to_keep,
                                  std::chrono::steady_clock::time_point deadline) {
  using namespace std::chrono_literals;
  std::size_t returned = 0;
  for (auto pause = 20us;; pause = std::min(2 * pause, 1000us)) {
    while (waiting_slow_paths_.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
    const trimmed some = slow_path{*this, idle(), 0, unit}.trim(bytes_to_keep);
    memory_.release_detached_unlocked();
    returned += some.bytes;
    if (!some.may_go_on) return returned;
    if (some.bytes != 0) {
      pause = 10us;
    } else {
      if (std::chrono::steady_clock::now() + pause > deadline) return returned;
      std::this_thread::sleep_for(pause);
    }
  }
}

void block_allocator::unmap_old_addresses() {
  const slow_path_turn turn{*this};
  if (!aliases_.empty()) slow_path{*this, idle(), 0, unit}.unmap_old_addresses();
}

void block_allocator::drain() {
  empty_all_caches();
  const slow_path_turn turn{*this};
  slow_path{*this, idle(), 0, unit}.wait_for_streams();
}

void block_allocator::set_reuse(pool_reuse rules) {
  const state_lock lock{state_mutex_};
  reuse_ = rules;
}

void block_allocator::set_limit(std::size_t physical_bytes) {
  const state_lock lock{state_mutex_};
  limit_ = physical_bytes;
}

void block_allocator::reset_highs() {
  const state_lock lock{state_mutex_};
  counters_.physical_high = counters_.physical_bytes;
  counters_.used_high = counters_.used_bytes;
}

pool_counters block_allocator::counters() {
  const state_lock lock{state_mutex_};
  return counters_;
}

}  // namespace hipvmm::mr::pool
