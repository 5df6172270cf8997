// SPDX-License-Identifier: MIT
#include "container/slot_allocator.hpp"

#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include "core/capture_mode.hpp"
#include "core/error.hpp"
#include "region/available.hpp"
#include "runtime/device.hpp"
#include "runtime/event.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {
namespace {

std::string slot_text(const char* function, std::size_t slot) {
  return std::string{function} + ": slot " + std::to_string(slot);
}

}  // namespace

slot_allocator::slot_allocator(device_ref device, const slot_arena_options& options)
    : device_{device},
      most_memory_{most_memory(device)},
      geometry_{device, options},
      evict_{options.evict},
      prefetch_rows_{std::min(options.prefetch_blocks, geometry_.plane / geometry_.block)},
      budget_{options.budget_bytes},
      floor_{options.floor_bytes},
      priority_{options.priority},
      rows_{device, geometry_, options},
      devices_{devices_of(users_of(rows_.memory().rights()))},
      slots_(geometry_.slots),
      capacities_(geometry_.slots),
      claims_(geometry_.slots),
      membership_{options.tag, *this} {}

slot_allocator::~slot_allocator() {
  membership_.end();
  stops_ = true;
  task_.cancel_or_wait();
  idle_.end();
  rows_.retire();
}

void slot_allocator::require_slot(const char* function, std::size_t which) const {
  if (which >= slots_.size())
    throw std::out_of_range{slot_text(function, which) + " of " + std::to_string(slots_.size())};
}

slot_allocator::slot& slot_allocator::require_in_use(const char* function, std::size_t which,
                                                     stream_ref stream) {
  require_slot(function, which);
  slot& one = slots_[which];
  if (!one.in_use.load(std::memory_order_relaxed))
    throw std::invalid_argument{slot_text(function, which) +
                                " is free: acquire() or commit() it "
                                "first"};
  require_not_captured(function, stream);
  return one;
}

void slot_allocator::require_not_evicting(const char* function) const {
  if (evicting_ == nullptr) [[likely]]
    return;
  throw std::logic_error{std::string{function} +
                         ": called by the eviction callback of a commit, which may only release "
                         "and truncate slots: call it when the commit has returned"};
}

void slot_allocator::require_outside_batch(const char* function, std::size_t which) const {
  if (evicting_ == nullptr || !evicting_->names(which)) return;
  throw std::invalid_argument{slot_text(function, which) +
                              " is of the batch whose commit called this eviction callback: choose "
                              "a slot that the commit does not name, or let the commit fail"};
}

bool slot_allocator::has_passed(std::size_t which) {
  std::optional<event>& passed = claims_[which].passed;
  if (!passed) return true;
  const relaxed_captures others;
  if (passed->is_done()) {
    passed.reset();
    slots_[which].is_marked = false;
  }
  return !passed;
}

void slot_allocator::mark(const char* function, std::size_t which, stream_ref stream) {
  std::optional<event>& passed = claims_[which].passed;
  if (!has_passed(which)) stream.wait(*passed);
  if (needs_no_event(stream)) {
    passed.reset();
    slots_[which].is_marked = false;
    return;
  }
  std::optional<event> fresh = record_event_in(stream, devices_);
  if (!fresh)
    throw std::invalid_argument{slot_text(function, which) +
                                ": the stream is of a device that has no right to the arena on "
                                "device " +
                                std::to_string(device_.ordinal()) +
                                ": name it in slot_arena_options::access"};
  passed = std::move(fresh);
  slots_[which].is_marked = true;
}

void slot_allocator::wait_in(const char* function, std::size_t which, stream_ref stream) {
  if (has_passed(which)) return;
  require_not_captured(function, stream);
  // The event stays, because it protects the rows behind the length from other slots.
  stream.wait(*claims_[which].passed);
}

std::size_t slot_allocator::next_free() {
  // Packed slots have blocks in common: first one that adds few to those of slots in use.
  const bool packs = geometry_.packs();
  const std::vector<bool> needed =
      packs ? needed_rows(needed_by::slots_in_use) : std::vector<bool>{};
  std::size_t best = no_slot;
  std::pair<std::size_t, std::size_t> least;  // rows to be added, and bytes that are not backed
  bool best_has_passed = false;
  for (std::size_t which = 0; which < slots_.size(); ++which) {
    if (slots_[which].in_use.load(std::memory_order_relaxed)) continue;
    const std::pair lacks{packs ? added_rows(which, geometry_.most, needed) : 0,
                          geometry_.most - capacity(which)};
    const bool is_better = best == no_slot || lacks < least;
    if (!is_better && best_has_passed) continue;
    const bool passed = has_passed(which);
    if (best != no_slot && passed == best_has_passed ? !is_better : best_has_passed) continue;
    best = which;
    least = lacks;
    best_has_passed = passed;
  }
  return best;
}

std::size_t slot_allocator::acquire(stream_ref stream) {
  require_not_evicting("slot_arena::acquire");
  const auto still = membership_.hold_still();
  const pause stopped{*this};
  const std::size_t best = next_free();
  if (best == no_slot)
    throw out_of_memory{"slot_arena::acquire: all " + std::to_string(slots_.size()) +
                        " slots are in use: release one first"};
  wait_in("slot_arena::acquire", best, stream);
  slots_[best].in_use.store(true, std::memory_order_release);
  request_prefetch();
  return best;
}

void slot_allocator::commit(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
                            stream_ref stream) {
  require_awake("slot_arena::commit");
  if (count == 0) return;
  require_not_evicting("slot_arena::commit");
  bool fits = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (slots[i] >= slots_.size() || lengths[i] > geometry_.most) [[unlikely]] {
      require_slot("slot_arena::commit", slots[i]);
      throw std::out_of_range{slot_text("slot_arena::commit", slots[i]) + " was to have " +
                              std::to_string(lengths[i]) + " bytes, and bytes_per_slot is " +
                              std::to_string(geometry_.most) +
                              ": commit less, or make the arena with longer slots"};
    }
    const slot& one = slots_[slots[i]];
    fits = fits && one.in_use.load(std::memory_order_relaxed) &&
           lengths[i] <= capacities_[slots[i]].load(std::memory_order_acquire) &&
           (!one.is_marked || lengths[i] <= one.length.load(std::memory_order_relaxed));
  }
  if (fits) {
    bool grows = false;
    bool lacks = false;
    for (std::size_t i = 0; i < count; ++i) {
      slot& one = slots_[slots[i]];
      if (lengths[i] <= one.length.load(std::memory_order_relaxed)) continue;
      one.length.store(lengths[i], std::memory_order_relaxed);
      grows = true;
      lacks = lacks ||
              lacks_prefetch(lengths[i], capacities_[slots[i]].load(std::memory_order_relaxed));
    }
    if (grows && !has_grown_.load(std::memory_order_relaxed))
      has_grown_.store(true, std::memory_order_relaxed);
    if (lacks) request_prefetch();
    return;
  }
  const events_wait until_done;
  if (attempt([&] { grow_all(slots, lengths, count, stream); },
              [&](const shortage& why) {
                // The callback may raise the arena's own budget.
                return evict_ && (why.cause == exhausted::limit || why.can_be_relieved());
              }))
    return;
  ++evictions_;
  {
    const eviction running{*this, slots, count};
    evict_(missing_bytes(slots, lengths, count));
  }
  require_awake("slot_arena::commit");  // the callback may have suspended its tag
  grow_all(slots, lengths, count, stream);
}

void slot_allocator::release(std::size_t which, stream_ref stream) {
  const auto still = membership_.hold_still();
  slot& one = require_in_use("slot_arena::release", which, stream);
  require_outside_batch("slot_arena::release", which);
  mark("slot_arena::release", which, stream);
  shorten(which, 0);
  one.in_use.store(false, std::memory_order_release);
  if (may_prefetch_.exchange(true)) return;
  // A request that was made while may_prefetch_ was false has started no task.
  is_requested_.store(false);
  request_prefetch();
}

void slot_allocator::truncate(std::size_t which, std::size_t length, stream_ref stream) {
  const auto still = membership_.hold_still();
  slot& one = require_in_use("slot_arena::truncate", which, stream);
  require_outside_batch("slot_arena::truncate", which);
  const std::size_t present = one.length.load(std::memory_order_relaxed);
  if (length > present)
    throw std::invalid_argument{slot_text("slot_arena::truncate", which) + " has " +
                                std::to_string(present) + " bytes, not " + std::to_string(length) +
                                ": commit() makes it longer"};
  if (length == present) return;
  mark("slot_arena::truncate", which, stream);
  shorten(which, length);
}

void slot_allocator::shorten(std::size_t which, std::size_t length) {
  std::optional<pause> stopped;
  if (has_shared_) stopped.emplace(*this);
  slots_[which].length.store(length, std::memory_order_relaxed);
  // Whole shared blocks behind the length no longer count as capacity.
  if (has_shared_) set_claims(which, claims_[which].count);
}

std::vector<bool> slot_allocator::needed_rows(needed_by whom) const {
  std::vector<bool> needed(geometry_.plane / geometry_.block);
  for (std::size_t which = 0; which < slots_.size(); ++which) {
    const slot& one = slots_[which];
    std::size_t bytes = one.length.load(std::memory_order_relaxed);
    if (whom == needed_by::slots_in_use && one.in_use.load(std::memory_order_relaxed))
      bytes = geometry_.most;
    mark_rows(needed, which, bytes);
  }
  return needed;
}

void slot_allocator::mark_rows(std::vector<bool>& rows, std::size_t which,
                               std::size_t bytes) const noexcept {
  const std::size_t count = geometry_.rows_for(which, bytes);
  for (std::size_t i = 0; i < count; ++i) rows[geometry_.first_row(which) + i] = true;
}

std::size_t slot_allocator::added_rows(std::size_t which, std::size_t length,
                                       const std::vector<bool>& needed) const noexcept {
  const auto first = needed.begin() + static_cast<std::ptrdiff_t>(geometry_.first_row(which));
  const auto rows = static_cast<std::ptrdiff_t>(geometry_.rows_for(which, length));
  return static_cast<std::size_t>(std::count(first, first + rows, false));
}

std::size_t slot_allocator::needed_bytes(const std::vector<bool>& needed) const {
  const auto rows = static_cast<std::size_t>(std::ranges::count(needed, true));
  return (rows - rows_.count_aliases(needed)) * geometry_.row_bytes();
}

std::size_t slot_allocator::slots_that_fit(std::size_t length) {
  if (length > geometry_.most)
    throw std::out_of_range{"slot_arena::slots_that_fit: a slot of " + std::to_string(length) +
                            " bytes, and bytes_per_slot is " + std::to_string(geometry_.most)};
  const auto still = membership_.hold_still();
  const pause stopped{*this};
  std::vector<bool> needed = needed_rows();
  const std::size_t present = needed_bytes(needed) / geometry_.row_bytes();
  const creatable_memory fresh = creatable(device_, geometry_.block);
  const std::size_t by_count =
      fresh.chunks > fresh.bytes / geometry_.block ? fresh.bytes : fresh.chunks * geometry_.block;
  const std::size_t there =
      add_bytes(held_now(), std::min(fresh.bytes, by_count)) + rows_.usable_cached_bytes();
  const std::size_t kept = rows_.kept_bytes();
  const std::size_t retained = kept - std::min(kept, rows_.reusable_bytes());
  const std::size_t most = (std::min(limit(), there) - retained) / geometry_.row_bytes();
  std::size_t room = most > present ? most - present : 0;
  if (geometry_.packs()) {
    const std::size_t next = next_free();
    if (next == no_slot || added_rows(next, length, needed) > room) return 0;
  }
  std::size_t fitting = 0;
  for (std::size_t which = 0; which < slots_.size(); ++which) {
    if (slots_[which].in_use.load(std::memory_order_relaxed)) continue;
    const std::size_t added = added_rows(which, length, needed);
    if (added > room) continue;
    room -= added;
    mark_rows(needed, which, length);
    ++fitting;
  }
  return fitting;
}

void slot_allocator::set_budget(std::size_t bytes) {
  require_awake("slot_arena::set_budget");
  const pause stopped{*this};
  budget_ = bytes;
  may_prefetch_ = true;
  release_down_to(bytes);
}

std::size_t slot_allocator::trim() {
  require_awake("slot_arena::trim");
  const pause stopped{*this};
  const std::size_t before = rows_.held_bytes();
  release_down_to(0);
  // Otherwise the background task would take the memory again.
  may_prefetch_ = false;
  return before - rows_.held_bytes();
}

slot_arena_statistics slot_allocator::statistics() {
  const auto still = membership_.hold_still();
  const pause stopped{*this};
  slot_arena_statistics result{};
  for (const slot& each : slots_) {
    if (each.in_use.load(std::memory_order_relaxed)) ++result.slots_in_use;
    result.used_bytes += each.length.load(std::memory_order_relaxed) * geometry_.planes;
  }
  result.needed_bytes = needed_bytes(needed_rows());
  result.shared_bytes = rows_.alias_bytes();
  result.spare_bytes = rows_.mapped_bytes() - result.needed_bytes;
  result.kept_bytes = rows_.kept_bytes();
  result.held_bytes = held_now();
  result.peak_held_bytes = std::max(peak_held_, result.held_bytes);
  result.budget_bytes = budget_;
  result.reserved_bytes = rows_.memory().max_bytes();
  result.prefetched_blocks = prefetched_rows_ * geometry_.planes;
  result.failed_prefetches = failed_prefetches_;
  result.grown_blocks = grown_rows_ * geometry_.planes;
  result.moved_blocks = moved_rows_ * geometry_.planes;
  result.evictions = evictions_;
  return result;
}

void* slot_allocator::pointer(std::size_t which, std::size_t plane) const {
  require_slot("slot_arena::pointer", which);
  if (plane >= geometry_.planes)
    throw std::out_of_range{"slot_arena::pointer: plane " + std::to_string(plane) + " of " +
                            std::to_string(geometry_.planes)};
  return static_cast<char*>(base()) + plane * geometry_.plane + geometry_.start(which);
}

std::size_t slot_allocator::length(std::size_t which) const {
  require_slot("slot_arena::length", which);
  return slots_[which].length.load(std::memory_order_relaxed);
}

std::size_t slot_allocator::capacity(std::size_t which) const {
  require_slot("slot_arena::capacity", which);
  return capacities_[which].load(std::memory_order_acquire);
}

bool slot_allocator::in_use(std::size_t which) const {
  require_slot("slot_arena::in_use", which);
  return slots_[which].in_use.load(std::memory_order_relaxed);
}

}  // namespace hipvmm::detail
