// SPDX-License-Identifier: MIT
// This file is not region_sleep.cpp, because region_state.hpp includes region_sleep.hpp, and units
// form no circle.
#include <chrono>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include "core/error.hpp"
#include "region/map_runs.hpp"
#include "region/region_sleep.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {

namespace {

/// Bytes mapped or unmapped at once while others are copied: their copy takes about as long as the
/// slowest call.
constexpr std::size_t least_overlap = 8 * MiB;

}  // namespace

sleep_participant& sleep_participant_of(region& of) { return implementation_of(of).sleep; }

void region_sleep::require_can_sleep(std::size_t offset, const backing& held,
                                     const sizes_by_chunk& owners) const {
  // shared() does not know exports by another owner (share_prefix()); but chunks with several
  // owners have no handle type, so that nobody exports them.
  const bool may_be_exported = held.chunk.shared() && held.chunk.shareable() != handle_type::none;
  if (!may_be_exported && !is_retained_by_address(held.chunk) &&
      owners_of(held.chunk) == owners.at(held.chunk.get()))
    return;
  throw std::invalid_argument{
      "suspend: the chunk at offset " + std::to_string(offset) + " of " + region_.text() +
      " was exported, imported or retained: others may use its memory, which would not return; let "
      "them go, or leave the memory without a tag"};
}

void region_sleep::require_backed(const sleep_plan& plan) const {
  const auto start = reinterpret_cast<std::uintptr_t>(region_.base());
  for (const suspend_range& each : plan.ranges()) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(each.address);
    if (at < start || at - start >= region_.max_bytes()) continue;  // of another object
    const std::size_t backed = region_.committed_from(at - start);
    if (backed < each.bytes)
      throw std::invalid_argument{"suspend: of the range of " + std::to_string(each.bytes) +
                                  " bytes at " + address_text(each.address) + " only " +
                                  std::to_string(backed) + " are backed by memory: name no more"};
  }
}

bool region_sleep::can_copy(const backing& held) const {
  return region_.rights_to(held).get(held.chunk.device()) == access_right::read_write;
}

region_sleep::sizes_by_chunk region_sleep::copied_by() const {
  sizes_by_chunk result;
  for (const auto& [offset, held] : region_.backings) {
    const auto [best, is_first] = result.try_emplace(held.chunk.get(), offset);
    if (!is_first && can_copy(held) && !can_copy(region_.backings.at(best->second)))
      best->second = offset;
  }
  return result;
}

void region_sleep::choose_contents(const sleep_plan& plan) {
  for (const auto& [chunk, offset] : copied_by()) {
    const auto one = chunks_.find(offset);
    if (one == chunks_.end()) continue;  // it stays
    const backing& held = region_.backings.at(offset);
    const auto* const start = static_cast<const char*>(region_.base()) + offset;
    if (can_copy(held) || plan.is_all(keep::nothing, start, held.bytes())) continue;
    const device_ref device = one->second.device;
    const bool is_readable = region_.rights_to(held).get(device) != access_right::none ||
                             plan.is_all(keep::zeros, start, held.bytes());
    if (!is_readable || region_.rights.get(device) != access_right::read_write)
      throw std::invalid_argument{
          "suspend: the chunk at offset " + std::to_string(offset) + " of " + region_.text() +
          " gives device " + std::to_string(device.ordinal()) +
          ", which copies it, no read_write: grant it first, or suspend with keep::nothing"};
    one->second.opens_late = true;
  }
}

void region_sleep::require_readable() const {
  region_.require_none_left_behind("save_checkpoint", 0, region_.max_bytes());
  for (const auto& [offset, held] : region_.backings) {
    if (region_.rights_to(held).get(held.chunk.device()) == access_right::none)
      throw std::invalid_argument{"save_checkpoint: the chunk at offset " + std::to_string(offset) +
                                  " of " + region_.text() + " gives device " +
                                  std::to_string(held.chunk.device().ordinal()) +
                                  ", which copies it, no right to read: grant it first"};
  }
}

void region_sleep::require_mappable_again() const {
  if (region_.strategy->rights.takes_any_mapping) return;
  for (auto at = region_.backings.begin(); at != region_.backings.end(); ++at) {
    const auto& [offset, held] = *at;
    const auto next = std::next(at);
    // Only the last chunk of each reservation, which is mapped beside all others there.
    if (next != region_.backings.end() &&
        region_.addresses->part_start(next->first) == region_.addresses->part_start(offset))
      continue;
    region_.change_access(
        region_.mapped_here(), offset, held.bytes(),
        held.own_rights ? region_state::rights_for::these : region_state::rights_for::all,
        [](void*, std::size_t) {});
  }
  if (chunks_.size() == region_.backings.size()) return;
  // Each is mapped beside the chunks that stay and the sleeping ones at lower offsets.
  std::map<std::size_t, mapped_sizes> sizes;  // by reservation
  for (const auto& [offset, held] : region_.backings)
    if (chunks_.count(offset) == 0)
      sizes[region_.addresses->part_start(offset)].add(offset, held.bytes());
  for (const auto& [offset, one] : chunks_) {
    mapped_sizes& beside = sizes[region_.addresses->part_start(offset)];
    beside.add(offset, one.bytes);
    if (!rights_setting::can_add_to(beside))
      throw unsupported{
          "the " + format_bytes(one.bytes) + " at offset " + std::to_string(offset) +
          " could be granted no rights beside chunks of other sizes that stay behind "
          "a hole: let only the first chunks stay, or those of a region of their own"};
  }
}

void region_sleep::prepare_to_sleep(const sleep_plan& plan) {
  region_.map_again();
  if (plan.only_reads()) return require_readable();
  region_.strategy->returns_memory.require("suspend");
  region_.require_none_left_behind("suspend", 0, region_.max_bytes());
  require_backed(plan);
  chunks_.clear();
  sizes_by_chunk owners;
  for (const auto& [offset, held] : region_.backings) ++owners[held.chunk.get()];
  sizes_by_chunk firsts;  // offsets
  for (const auto& [offset, held] : region_.backings) {
    const auto* const start = static_cast<const char*>(region_.base()) + offset;
    if (owners.at(held.chunk.get()) > 1 && plan.names(start, held.bytes()))
      throw std::invalid_argument{"suspend: a range has a part of the chunk at offset " +
                                  std::to_string(offset) + " of " + region_.text() +
                                  ", whose memory is shown at other addresses too: leave it out"};
    if (plan.is_all(keep::mapped, start, held.bytes())) continue;
    require_can_sleep(offset, held, owners);
    const std::size_t first = firsts.try_emplace(held.chunk.get(), offset).first->second;
    chunks_.emplace(offset, sleeping_chunk{held.bytes(), held.chunk.location(), held.chunk.device(),
                                           held.chunk.memory(), held.own_rights, first});
  }
  if (region_.strategy->pins_memory && !chunks_.empty() && chunks_.size() < region_.backings.size())
    throw unsupported{"suspend: memory of " + region_.text() +
                      " returns only with all of its addresses, of which " +
                      format_bytes(region_.committed - sleeping_bytes()) +
                      " are to stay mapped: give these a region or vector of their own, all of "
                      "which stays, or keep their contents"};
  sleeps_with_contents_ = !plan.restores_nothing();
  if (sleeps_with_contents_) choose_contents(plan);
  region_.drop_prepared();
  if (!plan.waits() && region_.shares_addresses())
    throw std::invalid_argument{"suspend: work may use memory that " + region_.text() +
                                " has released: it can be evicted when that work has ended"};
  finish_retired(*region_.addresses, 0, region_.max_bytes());
  region_.addresses->refused().retry(region_.base(), region_.max_bytes());
  try {
    require_mappable_again();
  } catch (const unsupported& error) {
    throw unsupported{"suspend: resume() could not map " + region_.text() +
                      " again: " + error.what()};
  }
}

std::pair<const void*, std::size_t> region_sleep::addresses_of() const noexcept {
  return {region_.base(), region_.max_bytes()};
}

device_ref region_sleep::device() const noexcept { return region_.device; }

std::size_t region_sleep::held_bytes() {
  std::size_t sum = bytes_of(contents()) + region_.prefetch.ready_bytes();
  if (region_.options.cache != nullptr) sum += region_.cache().statistics().bytes;
  return std::max(sum, region_.addresses->pinned_bytes());
}

void region_sleep::map_again() { region_.map_again(); }

void region_sleep::wait_for_work() { wait_for_users(region_.users); }

void region_sleep::each_asleep(
    const std::function<void(memory_location, std::size_t)>& found) const {
  for (const auto& [offset, one] : chunks_)
    if (one.first == offset) found(one.where, one.bytes);
}

std::vector<sleeping_range> region_sleep::contents() {
  std::vector<sleeping_range> result;
  const sizes_by_chunk chosen = copied_by();
  result.reserve(chosen.size());
  for (const auto& [offset, held] : region_.backings)
    if (chosen.at(held.chunk.get()) == offset)
      result.push_back(
          {static_cast<char*>(region_.base()) + offset, held.bytes(), held.chunk.device()});
  return result;
}

chunks_that_stay_mapped region_sleep::staying(const sleep_plan& plan) {
  chunks_that_stay_mapped result;
  std::set<ihipMemGenericAllocationHandle*> counted;
  for (const auto& [offset, held] : region_.backings) {
    char* const start = static_cast<char*>(region_.base()) + offset;
    if (!plan.is_all(keep::mapped, start, held.bytes())) continue;
    result.ranges.push_back({start, held.bytes(), keep::nothing});
    if (counted.insert(held.chunk.get()).second) result.bytes += held.bytes();
  }
  return result;
}

void region_sleep::unmap_to_sleep(const wait_until_saved& saved) {
  if (!chunks_.empty()) region_.may_pin_memory = true;
  downward_unmaps unmaps{*region_.addresses};
  std::size_t pending = 0;
  for (auto at = region_.backings.end(); at != region_.backings.begin();) {
    --at;
    if (chunks_.count(at->first) == 0) continue;
    saved(static_cast<char*>(region_.base()) + at->first);
    region_.is_torn = true;
    mapping& each = at->second.map;
    unmaps.add(each);
    // Unmaps these while copies save the others.
    pending += at->second.bytes();
    if (sleeps_with_contents_ && pending >= least_overlap) {
      unmaps.finish();
      pending = 0;
    }
  }
  unmaps.finish();
}

void region_sleep::finish_suspend() noexcept {
  backing_map released;
  for (const auto& each : chunks_) released.insert(region_.backings.extract(each.first));
  release_all(released, *region_.addresses, region_.cache());
  region_.is_torn = false;
  reclaim_pinned();
  // The cache has the chunks that the region retired before, and the prepared one.
  for (const auto& [each, its] : region_.strategy->owners())
    report_exceptions([&, device = each] { region_.cache().trim(device); });
  const std::size_t bytes = sleeping_bytes();
  if (bytes != 0)
    region_.report(memory_event_kind::trim, {.address = region_.address_of(0), .bytes = bytes});
}

void region_sleep::reclaim_pinned() noexcept {
  if (!region_.may_pin_memory || !region_.strategy->pins_memory) return;
  // Addresses with a mapping cannot be freed.
  if (!region_.backings.empty() || !region_.addresses->refused().empty() ||
      region_.shares_addresses())
    return;
  report_exceptions([this] { region_.free_for_a_moment("suspend"); });
}

void region_sleep::reacquire_addresses() {
  const auto take_back = [this] { return region_.addresses->take_back(); };
  if (chunks_.empty())  // not needed now, and commit() tries again
    return static_cast<void>(report_exceptions(take_back));
  const auto advice = [this] {
    return "resume: others hold the addresses at " + address_text(region_.base()) +
           ", which suspend() freed so that their memory returned; all of the tag stays asleep: "
           "let the others go, and resume again";
  };
  if (!with_advice(take_back, advice))
    throw out_of_memory{exhausted::addresses, region_.device.ordinal(), region_.max_bytes(), 0,
                        advice()};
}

void region_sleep::map_for_resume(const mapped_again& each, memory_to_make& left) {
  if (!resumed_.empty()) {  // left by stay_asleep()
    wait_for_users(region_.users);
    release_all(resumed_, *region_.addresses, region_.cache());
  }
  if (region_.shares_addresses()) finish_retired(*region_.addresses, 0, region_.max_bytes());
  const auto make = [&](std::size_t offset, const sleeping_chunk& one) {
    backing& fresh = resumed_.try_emplace(offset).first->second;
    fresh.own_rights = one.own_rights;
    if (one.first != offset) {
      fresh.chunk = reference_to(resumed_.at(one.first).chunk);
      return;
    }
    std::size_t& left_there = left.bytes.at(one.where.device());
    fresh.chunk = acquire_with_retry(
        [&, &of = region_] { return of.acquire(one.where, one.bytes, one.memory); },
        {.bytes = left_there > one.bytes ? region_.not_cached(one.where, left_there) : 0,
         .evicts_until = left.evicts_until});
    left_there -= one.bytes;
  };
  // All chunks are made before the first is mapped if rights depend on neighbours, or if addresses
  // would pin the memory after a failure. Otherwise chunks are filled while the next ones are made.
  const bool makes_all_first =
      !region_.strategy->rights.takes_any_mapping || region_.strategy->pins_memory;
  const auto make_all = [&] {
    for (auto next = chunks_.begin(); makes_all_first && next != chunks_.end(); ++next)
      make(next->first, next->second);
    auto hidden = chunks_.begin();  // the first that work may not see yet
    const auto show_until = [&](moment now) {
      for (; hidden != chunks_.end(); ++hidden) {
        const auto at = resumed_.find(hidden->first);
        if (at == resumed_.end() || at->second.map.empty() || at->second.visible > now) return;
        each(static_cast<char*>(region_.base()) + at->first, at->second.bytes());
      }
    };
    region_state::map_runs runs{region_, region_.mapped_here(&resumed_)};
    for (const auto& [offset, one] : chunks_) {
      if (!makes_all_first) make(offset, one);
      backing& fresh = resumed_.at(offset);
      runs.add(offset, fresh.chunk, one.opens_late ? nullptr : one.own_rights.get(), fresh.map,
               &fresh.visible);
      if (sleeps_with_contents_ && runs.bytes() >= least_overlap) runs.finish();
      if (runs.bytes() == 0) show_until(std::chrono::steady_clock::now());
    }
    runs.finish();
    if (!resumed_.empty()) {
      const moment last = resumed_.rbegin()->second.visible;
      wait_until(last);
      show_until(last);
    }
  };
  with_advice(make_all, [this] {
    return "resume: the region needs " + format_bytes(region_.committed) +
           "; all of the tag stays asleep: free memory, and resume again";
  });
}

void region_sleep::stay_asleep(bool may_be_in_use) noexcept {
  if (resumed_.empty()) return;
  if (std::ranges::any_of(resumed_, [](const auto& each) { return !each.second.map.empty(); }))
    region_.may_pin_memory = true;
  if (may_be_in_use && !wait_past_captures(region_.users)) {
    // If no thread takes them, they stay mapped until the next resume() or the region's end.
    report_exceptions([this] {
      static_cast<void>(retire_backings(resumed_, region_.addresses, region_.cache(), std::nullopt,
                                        devices_of(region_.users), region_.device));
    });
    return;
  }
  release_all(resumed_, *region_.addresses, region_.cache());
  reclaim_pinned();
}

void region_sleep::apply_rights() {
  for (const auto& [offset, one] : chunks_) {
    if (!one.opens_late) continue;
    region_.change_access(
        region_.mapped_here(&resumed_), offset, one.bytes, region_state::rights_for::these,
        [&, &chunk = one](void* start, std::size_t length) {
          set_rights(start, length, *chunk.own_rights, chunk.device, &region_.rights);
        });
  }
}

void region_sleep::finish_waking() noexcept {
  const std::size_t bytes = sleeping_bytes();
  region_.committed = 0;
  for (const auto& [offset, held] : region_.backings) region_.committed += held.bytes();
  region_.merge(resumed_);
  chunks_.clear();
  if (bytes != 0)
    region_.report(memory_event_kind::grow, {.address = region_.address_of(0), .bytes = bytes});
}

}  // namespace hipvmm::detail
