// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/slow_path.hpp"

#include <algorithm>
#include <thread>

#include <hipvmm/core/error.hpp>
#include "core/observers/profiler_range.hpp"
#include "mr/pool/allocator/thread_caches.hpp"

namespace hipvmm::mr::pool {

slow_path::slow_path(allocator_state& all, stream_state& user, const request& wanted)
    : all_{all},
      user_{user},
      request_{wanted},
      states_{all.streams.all()},
      turn_{all},
      maintenance_{all, turn_} {}

std::optional<std::size_t> slow_path::serve() {
  // Others may take what this one has waited for, while the lock was theirs.
  constexpr int most_waits = 16;
  // Others may free memory for ever: what it costs to wait for that, nobody could tell.
  constexpr int most_scans = 64;
  const detail::profiler_range range{"hipvmm pool: slow path"};
  int scans = 0;
  std::optional<out_of_memory> refused;
  empty_caches(all_, user_);
  for (;;) {
    require_awake();
    const std::uint64_t reclaimed = all_.memory.reclaimed_so_far();
    refused.reset();
    if (waited_) uncover_free_memory();
    const unsigned times_away = turn_.times_away();
    missed_a_run_ = false;
    // Others may have freed memory, or brought more, while this one waited for its turn.
    if (const auto found = take_own(pool_source::own_stream)) return found;
    for (stream_state* const each : states_) empty_caches(all_, *each);
    if (const auto found = take_followed()) return found;
    if (!relaxed_) relaxed_.emplace();
    all_.streams.record_missing_fences(states_, &user_, without_fence_);
    maintenance_.poll_fences(states_);
    if (maintenance_.collect_reusable(states_, waited_)) {
      if (const auto found = take_own(waited_ ? pool_source::waited : pool_source::opportunistic))
        return found;
    }
    for (int i = 0; i < most_waits && may_wait() && wait_for_all_streams(); ++i) {
      static_cast<void>(maintenance_.collect_reusable(states_, true));
      if (const auto found = take_own(pool_source::waited)) return found;
    }
    if (const auto found = take_run()) return found;
    try {
      if (const auto found = grow()) return found;
    } catch (const out_of_memory& error) {
      refused.emplace(error);
    }
    // Whether all free memory was there to be found.
    const bool was_whole =
        !missed_a_run_ && turn_.times_away() == times_away && !turn_.are_others_away();
    // Addresses that chunks have left may be what is missing.
    if (maintenance_.unmap_old_addresses()) continue;
    if (refused) {
      bool came_back = false;
      turn_.without_lock([&] { came_back = all_.memory.reclaim(*refused, reclaimed); });
      if (came_back) continue;
    }
    if (!waited_) {
      maintenance_.wait_for_streams(states_, without_fence_);
      begin_last_resort();
    } else if (was_whole || ++scans > most_scans) {
      break;
    } else {
      turn_.wait_for_others();
    }
  }
  if (refused) throw out_of_memory{*refused};
  return std::nullopt;
}

slow_path::~slow_path() {
  if (waited_) --all_.last_resorts;
}

void slow_path::begin_last_resort() noexcept {
  waited_ = true;
  ++all_.last_resorts;
}

void slow_path::uncover_free_memory() {
  states_ = all_.streams.all();
  for (stream_state* const each : states_) empty_caches(all_, *each);
  // They are on their way to the index, and nobody fills a cache now.
  while (all_.carriers.load() != 0) std::this_thread::yield();
}

void slow_path::require_awake() const {
  const state_lock lock{all_.state_mutex};
  all_.require_awake();
}

std::optional<std::size_t> slow_path::take_own(pool_source counted) {
  const state_lock lock{all_.state_mutex};
  all_.require_awake();
  all_.index.prepare_for(2);
  block* const found = all_.index.best_fit_or_idle(user_, request_.bytes, request_.alignment);
  if (found == nullptr) return std::nullopt;
  const std::size_t at = all_.index.aligned(found->offset, request_.alignment);
  return assign_to_user(all_.index.take(*found, at, request_.bytes), at + request_.bytes, counted);
}

std::optional<std::size_t> slow_path::take_followed() {
  // What the request leaves of the block is freed in the user's stream, behind what it waits for.
  if (!renew_user_fence()) return std::nullopt;
  // Newer blocks may be as small as older ones, which alone are ordered before the user's work.
  constexpr int patience = 16;
  const state_lock lock{all_.state_mutex};
  // What becomes a thread's own without having passed would need a fence that others cannot make.
  if (!all_.reuse.follow_event_dependencies || user_.thread() != 0) return std::nullopt;
  all_.index.prepare_for(2);
  block* best = nullptr;
  for (stream_state* const other : states_) {
    if (other == &user_ || other->is_idle() || !user_.depends_on(*other, 1)) continue;
    free_blocks& all = other->free();
    auto at = all.at_least(request_.bytes);
    for (int looked = 0; at != all.end() && looked < patience; ++at, ++looked) {
      if (best != nullptr && at->bytes >= best->bytes) break;
      if (!user_.depends_on(*other, at->epoch)) continue;
      if (all_.index.aligned(at->offset, request_.alignment) + request_.bytes > at->end()) continue;
      best = &*at;
      break;
    }
  }
  if (best == nullptr) return std::nullopt;
  const std::size_t at = all_.index.aligned(best->offset, request_.alignment);
  return assign_to_user(all_.index.take(*best, at, request_.bytes), at + request_.bytes,
                        pool_source::followed_stream);
}

bool slow_path::wait_for_all_streams() {
  stream_state& freed = all_.streams.all_streams();
  std::uint64_t epoch = 0;
  {
    const state_lock lock{all_.state_mutex};
    const block* const found = all_.index.best_fit(freed, request_.bytes, request_.alignment);
    if (found == nullptr || freed.has_passed(found->epoch)) return false;
    epoch = found->epoch;
  }
  const auto known = all_.streams.fence_for(freed, epoch, &user_);
  if (!known) return false;
  bool passed = false;
  turn_.without_lock([&] { passed = stream_timeline::wait_for(*known->point); });
  if (!passed) return false;
  const state_lock lock{all_.state_mutex};
  freed.note_passed(known->epoch);
  return true;
}

std::optional<std::size_t> slow_path::take_run() {
  for (;;) {
    blocks claimed;
    std::size_t at = 0;
    bool waits = false;
    {
      const state_lock lock{all_.state_mutex};
      all_.require_awake();
      place found = one_free_block();
      if (found.first == nullptr)
        found = scan_placements(all_.index, request_, *this, rules()).free_run;
      if (found.first == nullptr) return std::nullopt;
      at = found.at;
      all_.index.claim(*found.first, at, at + request_.bytes, claimed);
      waits = !std::all_of(claimed.begin(), claimed.end(),
                           [this](const block* one) { return is_in_order(*one); });
    }
    bool is_ordered = false;
    try {
      is_ordered = make_user_wait(claimed);
    } catch (...) {
      const state_lock lock{all_.state_mutex};
      all_.index.unclaim(claimed);
      throw;
    }
    const state_lock lock{all_.state_mutex};
    if (is_ordered && all_.refusal == nullptr)
      return assign_to_user(
          *claimed.front(), at + request_.bytes,
          waits ? pool_source::internal_dependency : pool_source::followed_stream);
    all_.index.unclaim(claimed);
  }
}

place slow_path::one_free_block() {
  place best;
  for (stream_state* const each : states_) {
    block* const one = all_.index.best_fit(*each, request_.bytes, request_.alignment);
    if (one == nullptr || !is_usable(*one)) continue;
    if (best.first == nullptr || one->bytes < best.first->bytes) best.first = one;
  }
  if (best.first != nullptr) best.at = all_.index.aligned(best.first->offset, request_.alignment);
  return best;
}

bool slow_path::wait_for(const blocks& taken) {
  for (const block* const one : taken) {
    stream_state& owner = owner_of(*one);
    {
      const state_lock lock{all_.state_mutex};
      if (owner.has_passed(one->epoch)) continue;
    }
    const auto known = all_.streams.fence_for(owner, one->epoch, &user_);
    if (!known) {
      without_fence_.push_back(&owner);
      return false;
    }
    bool passed = false;
    turn_.without_lock([&] { passed = stream_timeline::wait_for(*known->point); });
    if (!passed) {
      without_fence_.push_back(&owner);
      return false;
    }
    const state_lock lock{all_.state_mutex};
    owner.note_passed(known->epoch);
  }
  return true;
}

bool slow_path::make_user_wait(const blocks& taken) {
  if (!user_.is_stream()) return wait_for(taken);
  for (const block* const one : taken) {
    stream_state& owner = owner_of(*one);
    {
      const state_lock lock{all_.state_mutex};
      if (is_in_order(*one)) continue;
    }
    if (waited_ && !(owner.is_stream() && all_.reuse.allow_internal_dependencies)) {
      if (!wait_for({const_cast<block*>(one)})) return false;
      continue;
    }
    const auto known = all_.streams.fence_for(owner, one->epoch, &user_);
    if (!known || !known->point->orders_streams()) {
      without_fence_.push_back(&owner);
      return false;
    }
    if (!known->point->make_stream_wait(user_.stream())) {
      without_fence_.push_back(&user_);
      return false;
    }
    const state_lock lock{all_.state_mutex};
    user_.add_dependency(owner, known->epoch);
  }
  return renew_user_fence();
}

bool slow_path::renew_user_fence() {
  if (!user_.may_vanish() || all_.streams.renew_fence(user_)) return true;
  without_fence_.push_back(&user_);
  return false;
}

bool slow_path::is_usable(const block& one) const {
  if (one.state != block_state::free) return false;
  const stream_state& owner = owner_of(one);
  if (&owner == &user_ || owner.is_idle()) return true;
  if (all_.reuse.follow_event_dependencies && user_.thread() == 0 &&
      user_.depends_on(owner, one.epoch))
    return true;
  if (!all_.reuse.allow_internal_dependencies && !waited_) return false;
  return is_in_order(one) || may_be_ordered(owner);
}

bool slow_path::may_move(const block& one) const {
  const stream_state& owner = owner_of(one);
  return owner.has_passed(one.epoch) || may_be_ordered(owner);
}

bool slow_path::may_be_ordered(const stream_state& owner) const {
  if (is_without_fence(owner) || is_without_fence(user_)) return false;
  // The host would wait in the user's place, where new memory costs no wait.
  return waited_ || (user_.is_stream() && owner.is_stream());
}

bool slow_path::may_unmap(const block& one) const {
  return one.state == block_state::leaving && may_unmap_ && !all_.memory.unmap_waits() &&
         owner_of(one).has_passed(one.epoch);
}

bool slow_path::is_in_order(const block& one) const {
  const stream_state& owner = owner_of(one);
  return &owner == &user_ || owner.has_passed(one.epoch) || user_.depends_on(owner, one.epoch);
}

bool slow_path::is_without_fence(const stream_state& whose) const {
  return std::find(without_fence_.begin(), without_fence_.end(), &whose) != without_fence_.end();
}

std::size_t slow_path::assign_to_user(block& first, std::size_t end, pool_source counted) noexcept {
  block& taken = all_.index.make_used(first, end, user_, user_.epoch());
  all_.count_served(counted);
  return taken.offset;
}

chunk_rules slow_path::rules() const {
  const memory_backend& memory = all_.memory;
  return {memory.granularity(),  memory.least_slab(),       memory.most_chunks(),
          memory.moves_chunks(), memory.has_equal_chunks(), all_.limit,
          all_.planned_bytes,    all_.growths_in_a_row,     all_.largest_chunk};
}

}  // namespace hipvmm::mr::pool
