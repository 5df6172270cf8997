// SPDX-License-Identifier: MIT
#include <chrono>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "container/slot_allocator.hpp"
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::detail {

namespace {

// While commits come, the background task polls, because a wake-up of its thread would cost a
// commit more than the rest of the call. It stops after 50 ms without a commit.
constexpr std::chrono::milliseconds look_interval{1};
constexpr int most_idle_looks = 50;

}  // namespace

slot_allocator::growth::growth(slot_allocator& owner, std::size_t count) : owner_{owner} {
  grown_.reserve(count);
  owner.held_before_ = owner.rows_.held_bytes();
}

slot_allocator::growth::~growth() {
  for (const grown_slot& each : grown_) owner_.claims_[each.which].wanted = 0;
  const std::size_t held_before = std::exchange(owner_.held_before_, 0);
  if (is_kept_) return;
  for (auto each = grown_.rbegin(); each != grown_.rend(); ++each)
    while (owner_.claims_[each->which].count > each->count) owner_.unclaim_last(each->which);
  // Rows that HIP refuses to unmap stay backed without a claim.
  report_exceptions([&] { owner_.rows_.decommit_unclaimed(); });
  if (owner_.rows_.held_bytes() > held_before) owner_.rows_.return_pinned();
  // Memory from other slots stays for the next commit.
  const std::size_t mapped = owner_.rows_.mapped_bytes();
  owner_.rows_.trim_kept(held_before - std::min(held_before, mapped));
}

void slot_allocator::growth::add(std::size_t which, std::size_t wanted) noexcept {
  claimed_rows& one = owner_.claims_[which];
  grown_.push_back({which, one.count});
  one.wanted = std::max(one.wanted, wanted);
}

slot_allocator::pause::pause(slot_allocator& owner) noexcept : owner_{owner} {
  owner_.stops_.store(true);
  if (owner_.task_.pending()) owner_.is_requested_.store(true);
  owner_.task_.cancel_or_wait();
  owner_.stops_.store(false);
  alone_.emplace(owner_.idle_);
  owner_.is_paused_ = true;
}

slot_allocator::pause::~pause() {
  alone_.reset();
  owner_.is_paused_ = false;
  // Repeats a request that came meanwhile or was interrupted.
  if (owner_.is_requested_.load() && owner_.may_prefetch_.load() && !owner_.is_asleep_)
    owner_.task_.request();
}

void slot_allocator::request_prefetch() noexcept {
  if (prefetch_rows_ == 0 || !may_prefetch_.load(std::memory_order_relaxed)) return;
  if (!is_requested_.exchange(true) && !is_paused_ && !is_asleep_) task_.request();
}

void slot_allocator::prefetch() noexcept {
  const bool has_grown = has_grown_.exchange(false, std::memory_order_relaxed);
  if (is_requested_.exchange(false)) {
    const without_asking_others now;
    const without_reclaim too;  // because calls of the owner wait for this task
    const idle_membership::lock alone{idle_};
    try {
      if (!prefetch_rows()) return;
    } catch (...) {
      // The commit that needs the memory reports the failure, if it persists.
      ++failed_prefetches_;
      may_prefetch_.store(false);
      return;
    }
  } else if (!has_grown && ++idle_looks_ == most_idle_looks) {
    idle_looks_ = 0;
    return;
  }
  if (has_grown) idle_looks_ = 0;
  task_.run_again_in(look_interval);
}

bool slot_allocator::prefetch_rows() {
  const scoped_device scope{device_};
  for (;;) {
    // The slot with the least room left, because memory may not be enough for all.
    std::size_t next = slots_.size();
    std::size_t least = 0;
    for (std::size_t which = 0; which < slots_.size(); ++which) {
      if (!lacks_rows(which)) continue;
      const std::size_t backed = capacities_[which].load();
      const std::size_t left =
          backed - std::min(backed, slots_[which].length.load(std::memory_order_relaxed));
      if (next != slots_.size() && left >= least) continue;
      next = which;
      least = left;
    }
    if (next == slots_.size()) return true;
    if (!claim_next(next, asker::background)) {
      is_requested_.store(true);
      return false;
    }
  }
}

bool slot_allocator::lacks_rows(std::size_t which) const noexcept {
  const slot& one = slots_[which];
  const std::size_t backed = capacities_[which].load();
  if (!one.in_use.load(std::memory_order_acquire) || backed >= geometry_.most) return false;
  // The next commit drops claims behind a shared block.
  if (geometry_.rows_for(which, backed) < claims_[which].count) return false;
  return claims_[which].count <
         geometry_.rows_for(which, one.length.load(std::memory_order_relaxed)) + prefetch_rows_;
}

void slot_allocator::set_claims(std::size_t which, std::size_t claims) noexcept {
  claims_[which].count = claims;
  capacities_[which].store(geometry_.bytes_in(which, has_shared_ ? usable_rows(which) : claims),
                           std::memory_order_release);
}

void slot_allocator::grow_all(const std::size_t* slots, const std::size_t* lengths,
                              std::size_t count, stream_ref stream) {
  const pause stopped{*this};
  growth growing{*this, count};
  for (std::size_t i = 0; i < count; ++i) growing.add(slots[i], lengths[i]);
  const auto claim_all = [&] {
    require_budget(slots, lengths, count);
    for (std::size_t i = 0; i < count; ++i) {
      const slot& one = slots_[slots[i]];
      if (lengths[i] > one.length.load(std::memory_order_relaxed))
        wait_in("slot_arena::commit", slots[i], stream);
      if (has_shared_ && capacity(slots[i]) < lengths[i])
        drop_claims(slots[i], claims_[slots[i]].count);
      back_run(slots[i], lengths[i]);
      while (capacity(slots[i]) < lengths[i]) claim_next(slots[i], asker::owner);
    }
  };
  with_advice(claim_all, [&](const shortage& why) {
    const bool is_told = budget_ == slot_arena_options::no_budget || why.most == budget_;
    return "slot_arena::commit: a batch of " + std::to_string(count) +
           (count == 1 ? " slot" : " slots") +
           " needs more memory than there is: " + format_bytes(rows_.mapped_bytes()) +
           " are mapped, of which lengths need " + format_bytes(needed_bytes(needed_rows())) +
           (is_told ? std::string{} : ", and the budget is " + format_limit(budget_)) +
           ": release or truncate slots, give an eviction callback, or more memory";
  });
  growing.keep();
  for (std::size_t i = 0; i < count; ++i) {
    slot& one = slots_[slots[i]];
    if (lengths[i] > one.length.load(std::memory_order_relaxed))
      one.length.store(lengths[i], std::memory_order_relaxed);
    one.in_use.store(true, std::memory_order_release);
  }
  may_prefetch_ = true;
  request_prefetch();
}

void slot_allocator::require_budget(const std::size_t* slots, const std::size_t* lengths,
                                    std::size_t count) const {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t wanted = geometry_.rows_for(slots[i], lengths[i]);
    rows += wanted - std::min(wanted, claims_[slots[i]].count);
  }
  if (rows == 0) return;
  const std::size_t added = rows * geometry_.row_bytes();
  if (added <= std::min(room(), chunk_bytes_left(device_)) &&
      added <= most_memory_ - std::min(most_memory_, rows_.mapped_bytes()))
    return;
  std::vector<bool> needed = needed_rows();
  std::vector<bool> of_batch(needed.size());
  const std::size_t before = needed_bytes(needed);
  for (std::size_t i = 0; i < count; ++i) {
    mark_rows(needed, slots[i], lengths[i]);
    mark_rows(of_batch, slots[i], lengths[i]);
  }
  const std::size_t after = needed_bytes(needed);
  const std::size_t alone = needed_bytes(of_batch);
  const std::size_t most = limit();
  if (after > most)
    throw out_of_memory{budget_shortage(after - before, most - std::min(most, before))};
  // Each row by itself may fit, and would take memory of others for nothing.
  require_possible_chunks(device_, alone, alone);
  require_possible_chunks(device_, after, after - before);
}

std::size_t slot_allocator::missing_bytes(const std::size_t* slots, const std::size_t* lengths,
                                          std::size_t count) const {
  std::vector<bool> present = needed_rows();
  std::size_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = geometry_.first_row(slots[i]);
    const std::size_t needed = geometry_.rows_for(slots[i], lengths[i]);
    // Not from claims_, which the background task may be changing.
    for (std::size_t row = geometry_.rows_for(slots[i], capacity(slots[i])); row < needed; ++row) {
      if (!present[first + row]) ++rows;
      present[first + row] = true;
    }
  }
  return rows * geometry_.row_bytes();
}

bool slot_allocator::claim_next(std::size_t which, asker who) {
  const std::size_t row = geometry_.first_row(which) + claims_[which].count;
  // The slot may be released now, and then must not lose its rows to this call.
  claiming_ = which;
  rows_.claim(row);
  bool is_backed = false;
  try {
    // HIP refused to unmap shared memory there before.
    if (!rows_.is_private(row)) rows_.decommit(row);
    is_backed = back(row, who);
  } catch (...) {
    claiming_ = no_slot;
    rows_.unclaim(row);
    throw;
  }
  claiming_ = no_slot;
  if (!is_backed) {
    rows_.unclaim(row);
    return false;
  }
  set_claims(which, claims_[which].count + 1);
  return true;
}

void slot_allocator::back_run(std::size_t which, std::size_t length) {
  const std::size_t first = geometry_.first_row(which) + claims_[which].count;
  const std::size_t last = geometry_.first_row(which) + geometry_.rows_for(which, length);
  std::size_t end = first;
  while (end < last && rows_.is_empty(end)) ++end;
  const std::size_t count = end - first;
  if (end <= first + 1) return;
  const std::size_t bytes = count * geometry_.row_bytes();
  while (rows_.reusable_bytes(bytes) < bytes && move_spare(asker::owner, spare::idle)) {
  }
  if (!has_room(bytes)) return;
  if (!attempt([&] { rows_.back_run(first, count); })) return;
  note_held();
  grown_rows_ += count;
}

bool slot_allocator::back(std::size_t row, asker who) {
  // A failed unmap of several rows may have left this one unmapped.
  rows_.chunks().map_again();
  bool was_backed = true;
  while (!rows_.is_backed(row)) {
    was_backed = false;
    if (who == asker::background &&
        (stops_.load(std::memory_order_relaxed) || background_task::is_awaited_by_exit()))
      return false;
    const bool has_kept = rows_.reusable_bytes(geometry_.block) != 0;
    if (!has_kept && move_spare(who, spare::idle)) continue;
    if (has_kept || room() >= geometry_.block) {
      const auto back_next = [&] {
        rows_.back_next(row);
        note_held();
      };
      static_cast<void>(attempt(back_next, [&](const shortage&) {
        return move_spare(who, spare::any) || (who != asker::background && wait_for_spare());
      }));
    } else if (!move_spare(who, spare::any) && (who == asker::background || !wait_for_spare())) {
      throw_over_budget(geometry_.block);
    }
  }
  if (!was_backed) ++(who == asker::owner ? grown_rows_ : prefetched_rows_);
  return true;
}

void slot_allocator::throw_over_budget(std::size_t bytes) const {
  const std::size_t held = rows_.held_bytes();
  throw out_of_memory{budget_shortage(bytes, budget_ > held ? budget_ - held : 0)};
}

shortage slot_allocator::budget_shortage(std::size_t bytes, std::size_t left) const {
  return {.cause = exhausted::limit,
          .device = device_.ordinal(),
          .requested = bytes,
          .available = left,
          .owner = "slot_arena_options::budget_bytes",
          .most = budget_,
          .used = rows_.mapped_bytes()};
}

bool slot_allocator::unclaim_last(std::size_t which) noexcept {
  const std::size_t row = last_row(which);
  set_claims(which, claims_[which].count - 1);
  return rows_.unclaim(row);
}

std::size_t slot_allocator::protected_rows(std::size_t which, spare of) const noexcept {
  const slot& one = slots_[which];
  const bool in_use = one.in_use.load(std::memory_order_acquire);
  const std::size_t rows = geometry_.rows_for(
      which, std::max(one.length.load(std::memory_order_relaxed), claims_[which].wanted));
  return rows + (in_use && of == spare::idle ? prefetch_rows_ : 0);
}

std::optional<std::size_t> slot_allocator::unclaim_spare(asker who, spare which) {
  for (std::size_t n = 0; n < slots_.size(); ++n) {
    const std::size_t victim = (next_victim_ + n) % slots_.size();
    if (who == asker::background &&
        (victim == claiming_ || slots_[victim].in_use.load(std::memory_order_acquire)))
      continue;
    const claimed_rows& one = claims_[victim];
    const std::size_t kept = protected_rows(victim, which);
    if (one.count <= kept || !has_passed(victim)) continue;
    while (one.count > kept) {
      const std::size_t row = last_row(victim);
      if (!unclaim_last(victim)) continue;
      next_victim_ = victim;
      return row;
    }
  }
  return std::nullopt;
}

bool slot_allocator::evict_row(asker who, spare which) {
  const std::optional<std::size_t> row =
      rows_.unclaimed_rows() != 0 ? rows_.find_unclaimed() : unclaim_spare(who, which);
  if (row) rows_.decommit(*row);
  return row.has_value();
}

bool slot_allocator::move_spare(asker who, spare which) {
  if (!evict_row(who, which)) return false;
  ++moved_rows_;
  return true;
}

std::size_t slot_allocator::idle_bytes() {
  if (is_asleep_ || may_be_torn_) return 0;
  const std::size_t needed = std::max(needed_bytes(needed_rows()), floor_);
  return rows_.held_bytes() - std::min(rows_.held_bytes(), needed);
}

given_memory slot_allocator::give_idle(const idle_request& asked) {
  given_memory given;
  if (is_asleep_ || may_be_torn_) return given;
  idle_request wanted = asked;
  const scoped_device scope{device_};
  const auto is_used = [&](std::size_t which) {
    return slots_[which].in_use.load(std::memory_order_acquire) ? claims_[which].count != 0
                                                                : !has_passed(which);
  };
  // If addresses pin memory, unmapping some rows returns nothing, but a taker can use their chunks.
  const bool may_unmap = !rows_.strategy().pins_memory || rows_.fits(wanted);
  // The own cache keeps the floor's chunks.
  bool empties = !may_unmap && (rows_.returns_when_empty() || floor_ == 0);
  for (std::size_t which = 0; empties && which < slots_.size(); ++which) empties = !is_used(which);
  const bool is_taker = rows_.is_taker(wanted);
  const auto held = [&] {
    const std::size_t cached = is_taker ? 0 : rows_.cached_bytes();
    return rows_.mapped_bytes() + cached;
  };
  const auto above_floor = [&] {
    const std::size_t now = rows_.held_bytes();
    return align_down(now - std::min(now, floor_), geometry_.row_bytes());
  };
  // The floor protects nothing of the program's cache.
  const std::size_t all = held();
  const std::size_t others = all - std::min(all, rows_.held_bytes());
  wanted.bytes = std::min(wanted.bytes, above_floor() + others);
  rows_.give_kept(wanted, given);
  while (given.all() < wanted.bytes && (may_unmap || empties) && above_floor() != 0) {
    const std::size_t before = held();
    if (!evict_row(asker::background, spare::any)) break;
    // Chunks that the cache keeps do not count: give_kept() gives them.
    (is_taker ? given.moved : given.released) += before - std::min(before, held());
    rows_.give_kept(wanted, given);
  }
  if (given.all() >= asked.bytes) return given;
  rows_.return_pinned();
  rows_.give_kept(wanted, given);
  return given;
}

void slot_allocator::note_held() noexcept { peak_held_ = std::max(peak_held_, rows_.held_bytes()); }

bool slot_allocator::wait_for_spare() {
  for (std::size_t which = 0; which < slots_.size(); ++which) {
    const claimed_rows& one = claims_[which];
    if (one.count <= protected_rows(which, spare::any)) continue;
    const relaxed_captures others;
    if (!has_passed(which)) one.passed->synchronize();
    return true;
  }
  return false;
}

void slot_allocator::prepare_to_sleep(const sleep_plan& plan) {
  is_asleep_ = true;
  const pause stopped{*this};
  do {
    while (unclaim_spare(asker::owner, spare::any)) {
    }
  } while (plan.waits() && wait_for_spare());
  rows_.decommit_unclaimed();
  rows_.trim_kept(0);
  rows_.chunks().prepare_to_sleep(plan);
}

void slot_allocator::be_awake() noexcept {
  is_asleep_ = false;
  may_prefetch_ = true;
  is_requested_.store(false);
  request_prefetch();
}

void slot_allocator::finish_suspend() noexcept {
  rows_.chunks().finish_suspend();
  bytes_asleep_ = sleeping_bytes();
}

void slot_allocator::map_for_resume(const mapped_again& each, memory_to_make& left) {
  bytes_asleep_ = 0;
  rows_.chunks().map_for_resume(each, left);
}

void slot_allocator::stay_asleep(bool may_be_in_use) noexcept {
  rows_.chunks().stay_asleep(may_be_in_use);
  bytes_asleep_ = sleeping_bytes();
}

void slot_allocator::map_torn_again() {
  const pause stopped{*this};
  rows_.chunks().map_again();
  may_be_torn_ = false;
}

bool slot_allocator::may_unmap_all() {
  for (std::size_t which = 0; which < slots_.size(); ++which)
    if (claims_[which].count != 0 && (protected_rows(which, spare::any) != 0 || !has_passed(which)))
      return false;
  return true;
}

void slot_allocator::release_down_to(std::size_t bytes) {
  const auto trim_kept = [&] {
    const std::size_t mapped = rows_.mapped_bytes();
    rows_.trim_kept(bytes > mapped ? bytes - mapped : 0);
  };
  trim_kept();
  // If addresses pin memory, unmapping some rows only helps to make shared ones private.
  if (rows_.returns_when_empty() && rows_.alias_bytes() == 0 && !may_unmap_all()) return;
  // Unmapping a shared row returns no memory, so one round may not be enough.
  while (rows_.held_bytes() > bytes) {
    const std::size_t excess = rows_.held_bytes() - bytes;
    while (rows_.unclaimed_rows() * geometry_.row_bytes() < excess &&
           unclaim_spare(asker::owner, spare::any)) {
    }
    if (rows_.unclaimed_rows() == 0) break;
    rows_.decommit_unclaimed();
    trim_kept();
  }
  if (bytes != 0 && rows_.held_bytes() <= bytes) return;
  rows_.return_pinned();
  trim_kept();
}

}  // namespace hipvmm::detail
