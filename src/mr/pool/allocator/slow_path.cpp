// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/slow_path.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/error.hpp"
#include "core/observers/profiler_range.hpp"

namespace hipvmm::mr::pool {
namespace {

using microseconds = std::chrono::duration<double, std::micro>;

/// The longest wait for memory that streams have freed, before new memory is taken.
microseconds patience_for(pool_blocks& blocks, const memory_backend& memory,
                          const request& wanted) {
  const microseconds cost_of_chunk = memory.traits.prices.patience();
  constexpr double most_held_by_needed = 4;  // the awaited work may wait for this thread
  const pool_blocks::state_lock lock{blocks.mutex};
  if (!blocks.reuse.allow_opportunistic) return microseconds{0};
  const std::size_t needed = blocks.index.used_bytes() + wanted.bytes;
  const double held_by_needed =
      std::clamp(static_cast<double>(blocks.physical_bytes()) / static_cast<double>(needed), 1.0,
                 most_held_by_needed);
  return cost_of_chunk * (held_by_needed * held_by_needed);
}

}  // namespace

slow_path::slow_path(pool_blocks& all_blocks, pool_backing& backing, stream_state& user,
                     const request& wanted)
    : blocks_{all_blocks},
      backing_{backing},
      user_{user},
      request_{wanted},
      states_{all_blocks.streams.all()},
      turn_{backing.turns},
      maintenance_{all_blocks, backing, turn_} {}

std::optional<std::size_t> slow_path::serve() {
  const detail::profiler_range range{"hipvmm pool: slow path"};
  blocks_.empty_caches(user_);
  do {
    require_awake();
    pass_ = {backing_.memory.reclaimed_so_far(), turn_.times_away()};
    if (waited_) uncover_free_memory();
    if (const auto found = take_free()) return found;
    if (const auto found = add_backing()) return found;
  } while (wait_for_memory());
  if (pass_.refused) throw out_of_memory{*pass_.refused};
  return std::nullopt;
}

std::optional<std::size_t> slow_path::take_free() {
  // Other threads may have freed memory meanwhile.
  if (const auto found = take_own(pool_source::own_stream)) return found;
  blocks_.empty_caches(states_);
  if (const auto found = take_followed()) return found;
  if (const auto found = take_passed()) return found;
  if (may_wait()) {
    if (const auto found = wait_for_all_streams()) return found;
    if (const auto found = wait_briefly()) return found;
  }
  return take_run();
}

std::optional<std::size_t> slow_path::add_backing() {
  std::optional<std::size_t> grown;
  pass_.refused = detail::refusal_of([&] { grown = grow(); });
  // GCC 12 (-O3) may store to `grown` although grow() throws.
  return pass_.refused ? std::nullopt : grown;
}

bool slow_path::wait_for_memory() {
  // A bound, because other threads may free memory without end.
  constexpr int most_scans = 64;
  const auto& refused = pass_.refused;
  if (refused && !std::exchange(is_memory_short_, true)) return true;
  // Whether the scan saw all free memory; read before the lock is left.
  const bool was_whole =
      !pass_.missed_a_run && turn_.times_away() == pass_.times_away && !turn_.are_others_away();
  // The pool may lack addresses that old mappings of moved chunks still occupy.
  if (maintenance_.unmap_old_addresses()) return true;
  if (refused && rounds_.may_help(refused->why(), backing_.memory.reclaims_left())) {
    bool came_back = false;
    asked_others_ = true;
    turn_.without_lock([&] { came_back = backing_.memory.reclaim(*refused, pass_.reclaimed); });
    if (came_back) return true;
  }
  if (!waited_) {
    maintenance_.wait_for_streams(states_, &without_fence_);
    // This request now claims memory before it waits for it, and caches keep nothing for others.
    waited_ = true;
    ++blocks_.waiting_requests;
    return true;
  }
  if (was_whole || ++scans_ > most_scans) return false;
  turn_.wait_for_others();
  return true;
}

slow_path::~slow_path() {
  // Chunks of others that were not needed.
  if (asked_others_) backing_.memory.release_set_aside();
  if (waited_) --blocks_.waiting_requests;
}

void slow_path::uncover_free_memory() {
  states_ = blocks_.streams.all();
  without_fence_.clear();  // captures may have ended
  blocks_.empty_caches(states_);
  // These blocks reach the index soon; no thread fills a cache now.
  while (blocks_.blocks_in_transit.load() != 0) std::this_thread::yield();
}

void slow_path::require_awake() const {
  blocks_.with_lock([this] { blocks_.require_awake(); });
}

std::optional<std::size_t> slow_path::take_own(pool_source counted) {
  const state_lock lock{blocks_.mutex};
  return blocks_.take_own(user_, request_, counted);
}

std::optional<std::size_t> slow_path::take_followed() {
  // A fence for nothing would be recorded at each miss.
  if (user_.may_vanish() &&
      (blocks_.with_lock([&] { return followed_block() == nullptr; }) || !renew_user_fence()))
    return std::nullopt;
  const state_lock lock{blocks_.mutex};
  block* const best = followed_block();
  if (best == nullptr) return std::nullopt;
  blocks_.index.prepare_for(2);
  const std::size_t at = blocks_.index.aligned(best->offset, request_.alignment);
  return blocks_.make_used(blocks_.index.take(*best, at, request_.bytes), at + request_.bytes,
                           user_, pool_source::followed_stream);
}

block* slow_path::followed_block() {
  // The user is ordered after older blocks only, so the search passes over so many newer ones.
  constexpr int patience = 16;
  // Not for a thread's own stream, in which other threads could not make a fence.
  if (!blocks_.reuse.follow_event_dependencies || user_.thread() != 0) return nullptr;
  block* best = nullptr;
  for (stream_state* const other : states_) {
    if (other == &user_ || other->is_idle() || !user_.depends_on(*other, 1)) continue;
    free_blocks& all = other->free();
    block* at = all.at_least(request_.bytes);
    for (int looked = 0; at != nullptr && looked < patience; at = all.after(*at), ++looked) {
      if (best != nullptr && at->bytes >= best->bytes) break;
      if (!user_.depends_on(*other, at->epoch)) continue;
      if (blocks_.index.aligned(at->offset, request_.alignment) + request_.bytes > at->end())
        continue;
      best = at;
      break;
    }
  }
  return best;
}

std::optional<std::size_t> slow_path::take_passed() {
  if (!relaxed_) relaxed_.emplace();
  blocks_.streams.record_missing_fences(states_, &user_, &without_fence_);
  maintenance_.poll_fences(states_);
  if (!maintenance_.collect_reusable(states_, waited_)) return std::nullopt;
  return take_own(waited_ ? pool_source::waited : pool_source::opportunistic);
}

std::optional<std::size_t> slow_path::wait_for_all_streams() {
  // Others may take the memory first.
  constexpr int most_waits = 16;
  stream_state& freed = blocks_.streams.all_streams();
  for (int i = 0; i < most_waits; ++i) {
    std::uint64_t epoch = 0;
    bool has_passed = false;
    {
      const state_lock lock{blocks_.mutex};
      const block* const found = blocks_.index.best_fit(freed, request_.bytes, request_.alignment);
      if (found == nullptr) return std::nullopt;
      epoch = found->epoch;
      has_passed = freed.has_passed(epoch);
    }
    if (!has_passed) {
      const auto known = blocks_.streams.fence_for(freed, epoch, &user_);
      if (!known || !turn_.wait_for(*known->point)) return std::nullopt;
      blocks_.with_lock([&] { freed.note_passed(known->epoch); });
    }
    static_cast<void>(maintenance_.collect_reusable(states_, true));
    if (const auto found = take_own(pool_source::waited)) return found;
  }
  return std::nullopt;
}

std::optional<std::size_t> slow_path::wait_briefly() {
  constexpr std::chrono::microseconds between_queries{20};
  const auto now = [] { return std::chrono::steady_clock::now(); };
  // One patience for all scans of a request.
  if (!brief_wait_began_) brief_wait_began_ = now();
  const microseconds patience = patience_for(blocks_, backing_.memory, request_);
  while (is_freed_in_a_stream() && now() - *brief_wait_began_ < patience) {
    turn_.without_lock([=] { std::this_thread::sleep_for(between_queries); });
    maintenance_.poll_fences(states_);
    if (!maintenance_.collect_reusable(states_, false)) continue;
    if (const auto found = take_own(pool_source::waited)) return found;
  }
  return std::nullopt;
}

bool slow_path::is_freed_in_a_stream() {
  const state_lock lock{blocks_.mutex};
  return std::ranges::any_of(states_, [&](stream_state* each) {
    return !is_without_fence(*each) && !each->fences().empty() &&
           blocks_.index.best_fit(*each, request_.bytes, request_.alignment) != nullptr;
  });
}

std::optional<std::size_t> slow_path::take_run() {
  for (;;) {
    blocks claimed;
    std::size_t at = 0;
    bool waits = false;
    {
      const state_lock lock{blocks_.mutex};
      blocks_.require_awake();
      candidate found = one_free_block();
      if (found.first == nullptr)
        found = scan_placements(blocks_.index, request_, *this, blocks_.rules()).free_run;
      if (found.first == nullptr) return std::nullopt;
      at = found.at;
      blocks_.index.claim(*found.first, at, at + request_.bytes, claimed);
      waits = !std::ranges::all_of(claimed, [this](const block* one) { return is_in_order(*one); });
    }
    bool is_ordered = false;
    try {
      is_ordered = make_user_wait(claimed);
    } catch (...) {
      const state_lock lock{blocks_.mutex};
      blocks_.index.unclaim(claimed);
      throw;
    }
    const state_lock lock{blocks_.mutex};
    if (is_ordered && blocks_.refusal == nullptr)
      return blocks_.make_used(
          *claimed.front(), at + request_.bytes, user_,
          waits ? pool_source::internal_dependency : pool_source::followed_stream);
    blocks_.index.unclaim(claimed);
  }
}

candidate slow_path::one_free_block() {
  candidate best;
  for (stream_state* const each : states_) {
    block* const one = blocks_.index.best_fit(*each, request_.bytes, request_.alignment);
    if (one == nullptr || !is_usable(*one)) continue;
    if (best.first == nullptr || one->bytes < best.first->bytes) best.first = one;
  }
  if (best.first != nullptr)
    best.at = blocks_.index.aligned(best.first->offset, request_.alignment);
  return best;
}

bool slow_path::wait_for(const blocks& taken) {
  for (const block* const one : taken) {
    stream_state& owner = owner_of(*one);
    if (blocks_.with_lock([&] { return owner.has_passed(one->epoch); })) continue;
    const auto known = blocks_.streams.fence_for(owner, one->epoch, &user_);
    if (!known || !turn_.wait_for(*known->point)) return mark_untracked(owner);
    const state_lock lock{blocks_.mutex};
    owner.note_passed(known->epoch);
  }
  return true;
}

bool slow_path::make_user_wait(const blocks& taken) {
  if (!user_.is_stream()) return wait_for(taken);
  bool is_behind_others = false;
  for (const block* const one : taken) {
    stream_state& owner = owner_of(*one);
    const bool is_ordered = blocks_.with_lock([&] {
      if (&owner != &user_ && !owner.has_passed(one->epoch)) is_behind_others = true;
      return is_in_order(*one);
    });
    if (is_ordered) continue;
    if (waited_ && !(owner.is_stream() && blocks_.reuse.allow_internal_dependencies)) {
      if (!wait_for({const_cast<block*>(one)})) return false;
      continue;
    }
    const auto known = blocks_.streams.fence_for(owner, one->epoch, &user_);
    if (!known || !known->point->orders_streams()) return mark_untracked(owner);
    if (!known->point->make_stream_wait(user_.stream())) return mark_untracked(user_);
    const state_lock lock{blocks_.mutex};
    user_.add_dependency(owner, known->epoch);
  }
  // Own and passed memory add no work that the newest fence must cover.
  return !is_behind_others || renew_user_fence();
}

bool slow_path::renew_user_fence() {
  return !user_.may_vanish() || blocks_.streams.renew_fence(user_) || mark_untracked(user_);
}

bool slow_path::is_usable(const block& one) const {
  if (one.state != block_state::free) return false;
  const stream_state& owner = owner_of(one);
  if (&owner == &user_ || owner.is_idle()) return true;
  // The user's stream can have no fence, so it must not wait for others.
  if (is_without_fence(user_)) return owner.has_passed(one.epoch);
  if (blocks_.reuse.follow_event_dependencies && user_.thread() == 0 &&
      user_.depends_on(owner, one.epoch))
    return true;
  if (!blocks_.reuse.allow_internal_dependencies && !waited_) return false;
  return is_in_order(one) || may_be_ordered(owner);
}

bool slow_path::may_move(const block& one) const {
  const stream_state& owner = owner_of(one);
  return owner.has_passed(one.epoch) || may_be_ordered(owner);
}

bool slow_path::may_be_ordered(const stream_state& owner) const {
  if (is_without_fence(owner) || is_without_fence(user_)) return false;
  // Otherwise the host would wait, and new memory needs no wait.
  return waited_ || (user_.is_stream() && owner.is_stream());
}

bool slow_path::may_unmap(const block& one) const {
  return one.state == block_state::leaving && may_unmap_ && !backing_.memory.traits.unmap_waits &&
         owner_of(one).has_passed(one.epoch);
}

bool slow_path::is_in_order(const block& one) const {
  const stream_state& owner = owner_of(one);
  return &owner == &user_ || owner.has_passed(one.epoch) || user_.depends_on(owner, one.epoch);
}

bool slow_path::mark_untracked(const stream_state& whose) {
  without_fence_.push_back(&whose);
  return false;
}

bool slow_path::is_without_fence(const stream_state& whose) const {
  return std::ranges::find(without_fence_, &whose) != without_fence_.end();
}

}  // namespace hipvmm::mr::pool
