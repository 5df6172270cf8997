// SPDX-License-Identifier: MIT
// How the slots of an arena get their rows, and which they give to each other.
#include <algorithm>
#include <chrono>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "container/slot_table.hpp"
#include "core/check.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::detail {

namespace {

// While commits come, the background task stays queued and looks by itself, for to wake its thread
// would take a commit longer than all else. It stops once none came for 50 ms, a step of a large
// model.
constexpr std::chrono::milliseconds look_interval{1};
constexpr int most_idle_looks = 50;

}  // namespace

slot_table::growth::growth(slot_table& owner, std::size_t count)
    : owner_{owner}, held_before_{owner.rows_.held_bytes()} {
  grown_.reserve(count);
}

slot_table::growth::~growth() {
  for (const grown_slot& each : grown_) owner_.claims_[each.which].wanted = 0;
  if (is_kept_) return;
  for (auto each = grown_.rbegin(); each != grown_.rend(); ++each)
    while (owner_.claims_[each->which].count > each->count) owner_.unclaim_last(each->which);
  // What cannot be unmapped stays, for whoever claims the row next.
  report_exceptions([&] { owner_.decommit_unclaimed(); });
  // What others gave is kept, for the next commit to need no new chunks.
  const std::size_t mapped = owner_.rows_.mapped_bytes();
  owner_.rows_.trim_kept(held_before_ - std::min(held_before_, mapped));
}

void slot_table::growth::add(std::size_t which, std::size_t wanted) noexcept {
  claimed_rows& one = owner_.claims_[which];
  grown_.push_back({which, one.count});
  one.wanted = std::max(one.wanted, wanted);
}

slot_table::pause::pause(slot_table& owner) noexcept : owner_{owner} {
  owner_.stops_.store(true);
  // The task goes on looking afterwards.
  if (owner_.task_.pending()) owner_.is_requested_.store(true);
  owner_.task_.cancel_or_wait();
  owner_.stops_.store(false);
  owner_.is_paused_ = true;
}

slot_table::pause::~pause() {
  owner_.is_paused_ = false;
  // What was requested, or interrupted.
  if (owner_.is_requested_.load() && owner_.may_prefetch_.load() && !owner_.is_asleep_)
    owner_.task_.request();
}

void slot_table::request_prefetch() noexcept {
  if (prefetch_rows_ == 0 || !may_prefetch_.load(std::memory_order_relaxed)) return;
  if (!is_requested_.exchange(true) && !is_paused_ && !is_asleep_) task_.request();
}

void slot_table::prefetch() noexcept {
  const bool has_grown = has_grown_.exchange(false, std::memory_order_relaxed);
  if (is_requested_.exchange(false)) {
    const without_asking_others now;
    try {
      if (!prefetch_rows()) return;
    } catch (...) {
      // The commit that needs the memory meets the same failure, or finds it gone.
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

bool slot_table::prefetch_rows() {
  const scoped_device scope{device_};
  for (std::size_t which = 0; which < slots_.size(); ++which) {
    const slot& one = slots_[which];
    while (one.in_use.load(std::memory_order_acquire) &&
           capacities_[which].load() < geometry_.most) {
      const std::size_t rows =
          geometry_.rows_for(which, one.length.load(std::memory_order_relaxed)) + prefetch_rows_;
      // What is behind a block that others see is for nobody: the next commit gives it back.
      const bool has_stale =
          geometry_.rows_for(which, capacities_[which].load()) < claims_[which].count;
      if (has_stale || claims_[which].count >= rows) break;
      if (!claim_next(which, asker::background)) {
        is_requested_.store(true);
        return false;
      }
    }
  }
  return true;
}

void slot_table::set_claims(std::size_t which, std::size_t claims) noexcept {
  claims_[which].count = claims;
  capacities_[which].store(geometry_.bytes_in(which, has_shared_ ? usable_rows(which) : claims),
                           std::memory_order_release);
}

void slot_table::grow_all(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
                          stream_ref stream) {
  const pause stopped{*this};
  growth growing{*this, count};
  for (std::size_t i = 0; i < count; ++i) growing.add(slots[i], lengths[i]);
  try {
    require_budget(slots, lengths, count);
    for (std::size_t i = 0; i < count; ++i) {
      const slot& one = slots_[slots[i]];
      if (lengths[i] > one.length.load(std::memory_order_relaxed))
        wait_in("commit", slots[i], stream);
      if (has_shared_ && capacity(slots[i]) < lengths[i])
        drop_claims(slots[i], claims_[slots[i]].count);
      while (capacity(slots[i]) < lengths[i]) claim_next(slots[i], asker::owner);
    }
  } catch (const out_of_memory& error) {
    throw out_of_memory{
        error, "slot_arena::commit: a batch of " + std::to_string(count) +
                   " slots needs more memory than there is: " + format_bytes(rows_.mapped_bytes()) +
                   " are mapped, of which lengths need " +
                   format_bytes(needed_bytes(needed_rows())) +
                   (budget_ == slot_arena_options::no_budget
                        ? std::string{}
                        : ", and the budget is " + format_bytes(budget_)) +
                   ": release or truncate slots, give an eviction callback, or more memory"};
  }
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

void slot_table::require_budget(const std::size_t* slots, const std::size_t* lengths,
                                std::size_t count) const {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t wanted = geometry_.rows_for(slots[i], lengths[i]);
    rows += wanted - std::min(wanted, claims_[slots[i]].count);
  }
  // What is held may be used, beyond a smaller budget too.
  const std::size_t limit = std::max(budget_, rows_.held_bytes());
  if (rows == 0 || rows * geometry_.row_bytes() <= limit - rows_.held_bytes()) return;
  std::vector<bool> needed = needed_rows();
  const std::size_t before = needed_bytes(needed);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t row = geometry_.rows_for(slots[i], lengths[i]); row-- != 0;)
      needed[geometry_.first_row(slots[i]) + row] = true;
  const std::size_t after = needed_bytes(needed);
  if (after > limit)
    throw out_of_memory{exhausted::limit, device_.ordinal(), after - before,
                        limit - std::min(limit, before), ""};
}

std::size_t slot_table::missing_bytes(const std::size_t* slots, const std::size_t* lengths,
                                      std::size_t count) const {
  std::vector<bool> present = needed_rows();
  std::size_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = geometry_.first_row(slots[i]);
    const std::size_t needed = geometry_.rows_for(slots[i], lengths[i]);
    // The background task may be changing the claims by now.
    for (std::size_t row = geometry_.rows_for(slots[i], capacity(slots[i])); row < needed; ++row) {
      if (!present[first + row]) ++rows;
      present[first + row] = true;
    }
  }
  return rows * geometry_.row_bytes();
}

bool slot_table::claim_next(std::size_t which, asker who) {
  const std::size_t row = geometry_.first_row(which) + claims_[which].count;
  rows_.claim(row);
  try {
    // HIP refused to unmap what is shown there.
    if (!rows_.is_private(row)) rows_.decommit(row);
    if (!back(row, who)) {
      rows_.unclaim(row);
      return false;
    }
  } catch (...) {
    rows_.unclaim(row);
    throw;
  }
  set_claims(which, claims_[which].count + 1);
  return true;
}

bool slot_table::back(std::size_t row, asker who) {
  bool was_backed = true;
  while (!rows_.is_backed(row)) {
    was_backed = false;
    if (who == asker::background &&
        (stops_.load(std::memory_order_relaxed) || background_task::is_awaited_by_exit()))
      return false;
    const bool has_kept = rows_.kept_bytes() >= geometry_.block;
    if (!has_kept && move_spare(who, spare::idle)) continue;
    if (has_kept || has_room()) {
      try {
        rows_.back_next(row);
        note_held();
        continue;
      } catch (const out_of_memory&) {
        if (!move_spare(who, spare::any) && (who == asker::background || !wait_for_spare())) throw;
      }
    } else if (!move_spare(who, spare::any) && (who == asker::background || !wait_for_spare())) {
      throw_over_budget(geometry_.block);
    }
  }
  if (!was_backed) ++(who == asker::owner ? grown_rows_ : prefetched_rows_);
  return true;
}

void slot_table::throw_over_budget(std::size_t bytes) const {
  const std::size_t held = rows_.held_bytes();
  throw out_of_memory{exhausted::limit, device_.ordinal(), bytes,
                      budget_ > held ? budget_ - held : 0, ""};
}

bool slot_table::unclaim_last(std::size_t which) noexcept {
  const std::size_t row = last_row(which);
  set_claims(which, claims_[which].count - 1);
  return rows_.unclaim(row);
}

std::size_t slot_table::keep_rows(std::size_t which, spare of) const noexcept {
  const slot& one = slots_[which];
  const bool in_use = one.in_use.load(std::memory_order_acquire);
  const std::size_t rows = geometry_.rows_for(
      which, std::max(one.length.load(std::memory_order_relaxed), claims_[which].wanted));
  return rows + (in_use && of == spare::idle ? prefetch_rows_ : 0);
}

bool slot_table::take_spare(asker who, spare which) {
  if (rows_.unclaimed() != 0) {
    rows_.decommit(rows_.find_unclaimed());
    return true;
  }
  for (std::size_t n = 0; n < slots_.size(); ++n) {
    const std::size_t victim = (next_victim_ + n) % slots_.size();
    if (who == asker::background && slots_[victim].in_use.load(std::memory_order_acquire)) continue;
    const claimed_rows& one = claims_[victim];
    const std::size_t kept = keep_rows(victim, which);
    if (one.count <= kept || !has_passed(victim)) continue;
    while (one.count > kept) {
      const std::size_t row = last_row(victim);
      if (!unclaim_last(victim)) continue;
      next_victim_ = victim;
      rows_.decommit(row);
      return true;
    }
  }
  return false;
}

bool slot_table::move_spare(asker who, spare which) {
  if (!take_spare(who, which)) return false;
  ++moved_rows_;
  return true;
}

void slot_table::note_held() noexcept { peak_held_ = std::max(peak_held_, rows_.held_bytes()); }

bool slot_table::wait_for_spare() {
  for (std::size_t which = 0; which < slots_.size(); ++which) {
    const claimed_rows& one = claims_[which];
    if (one.count <= keep_rows(which, spare::any) || has_passed(which)) continue;
    one.passed->synchronize();
    return true;
  }
  return false;
}

void slot_table::prepare_to_sleep(keep what) {
  is_asleep_ = true;
  try {
    const pause stopped{*this};
    release_down_to(0);
    while (wait_for_spare()) release_down_to(0);
    rows_.chunks().prepare_to_sleep(what);
  } catch (...) {
    stay_awake();
    throw;
  }
}

void slot_table::stay_awake() noexcept {
  is_asleep_ = false;
  may_prefetch_ = true;
  // What was released, and what was requested meanwhile.
  is_requested_.store(false);
  request_prefetch();
}

void slot_table::finish_waking() noexcept {
  rows_.chunks().finish_waking();
  stay_awake();
}

void slot_table::decommit_unclaimed() {
  while (rows_.unclaimed() != 0) rows_.decommit(rows_.find_unclaimed());
}

void slot_table::release_down_to(std::size_t bytes) {
  const auto trim_kept = [&] {
    const std::size_t mapped = rows_.mapped_bytes();
    rows_.trim_kept(bytes > mapped ? bytes - mapped : 0);
  };
  trim_kept();
  while (rows_.held_bytes() > bytes && take_spare(asker::owner, spare::any)) trim_kept();
}

}  // namespace hipvmm::detail
