// SPDX-License-Identifier: MIT
// The part of region that gives its memory back and keeps its addresses, for suspend() of its tag,
// and makes the memory again.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/region/region.hpp>
#include "core/check.hpp"
#include "region/device_work.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {

sleeper& sleeper_of(region& of) { return of.live(); }

void mapped_region::require_can_sleep(std::size_t offset, const backing& held,
                                      const owner_counts& owners) const {
  // What share_prefix() shows knows of no export, but was made for none.
  const bool may_be_exported = held.chunk.shared() && held.chunk.shareable() != handle_type::none;
  if (!may_be_exported && !is_retained_by_address(held.chunk) &&
      owners_of(held.chunk) == owners.at(held.chunk.get()))
    return;
  throw std::invalid_argument{
      "suspend: the chunk at offset " + std::to_string(offset) + " of the region at " +
      address_text(base()) +
      " was exported, imported or retained: others may use its memory, which would not return; let "
      "them go, or leave the memory without a tag"};
}

void mapped_region::choose_contents() {
  std::map<std::size_t, sleeping_chunk*> chosen;  // by the first mapping of the memory
  const auto can_copy = [&](const sleeping_chunk& one) {
    const access_map& its = one.own_rights ? *one.own_rights : rights;
    return its.get(one.device) == access_right::read_write;
  };
  for (auto& [offset, one] : asleep) {
    sleeping_chunk*& best = chosen.try_emplace(one.first, nullptr).first->second;
    one.has_contents = false;
    if (best == nullptr || (!can_copy(*best) && can_copy(one))) best = &one;
  }
  for (auto& [first, one] : chosen) {
    one->has_contents = true;
    if (can_copy(*one)) continue;
    if (rights.get(one->device) != access_right::read_write)
      throw std::invalid_argument{
          "suspend: the chunk at offset " + std::to_string(first) + " of the region at " +
          address_text(base()) + " gives device " + std::to_string(one->device.ordinal()) +
          ", which copies it, no read_write: grant it first, or suspend with keep::nothing"};
    one->opens_late = true;
  }
}

void mapped_region::prepare_to_sleep(keep what) {
  for (const auto& [each, its] : known) {
    if (!its.has(trait::returns_memory) && !its.needs(quirk::re_reserve))
      throw unsupported{
          "suspend: device " + std::to_string(each.ordinal()) +
          " does not get released memory back: " + its.reason(trait::returns_with_addresses)};
  }
  require_none_left_behind("suspend", 0, max_bytes());
  asleep.clear();
  owner_counts owners;
  for (const auto& [offset, held] : backings) ++owners[held.chunk.get()];
  std::map<ihipMemGenericAllocationHandle*, std::size_t> firsts;
  for (const auto& [offset, held] : backings) {
    require_can_sleep(offset, held, owners);
    const std::size_t first = firsts.try_emplace(held.chunk.get(), offset).first->second;
    asleep.emplace(offset, sleeping_chunk{held.bytes(), held.chunk.location(), held.chunk.device(),
                                          held.chunk.memory(), held.own_rights, first});
  }
  if (what == keep::contents) choose_contents();
  drop_prepared();
  finish_retired(*addresses, 0, max_bytes());
  addresses->refused().retry(base(), max_bytes());
  try {
    require_mappable_again();
  } catch (const unsupported& error) {
    throw unsupported{"suspend: resume() could not map the region at " + address_text(base()) +
                      " again: " + error.what()};
  }
}

void mapped_region::wait_for_work() { wait_for_users(users); }

std::size_t mapped_region::sleeping_bytes() const {
  std::size_t sum = 0;
  for (const auto& [offset, one] : asleep)
    if (one.first == offset) sum += one.bytes;
  return sum;
}

std::vector<sleeping_range> mapped_region::contents() const {
  std::vector<sleeping_range> result;
  result.reserve(asleep.size());
  for (const auto& [offset, one] : asleep)
    if (one.has_contents)
      result.push_back({static_cast<char*>(base()) + offset, one.bytes, one.device});
  return result;
}

void mapped_region::unmap_to_sleep(const wait_until_saved& saved) {
  if (!backings.empty()) holds_memory = true;
  // From the end, so that what is mapped is never beside a hole that was not there: its rights
  // might be refused when it is mapped again.
  for (auto at = backings.end(); at != backings.begin();) {
    --at;
    try {
      saved(static_cast<char*>(base()) + at->first);
      at->second.map.unmap();
    } catch (...) {
      for (auto undone = std::next(at); undone != backings.end();) restore(undone++);
      throw;
    }
  }
}

void mapped_region::map_again() noexcept {
  for (auto at = backings.begin(); at != backings.end();) restore(at++);
}

void mapped_region::fall_asleep() noexcept {
  backings.clear();
  renew_for_sleep();
  // What it has released before, and what was made ahead.
  for (const auto& [each, its] : known)
    report_exceptions([&, device = each] { cache().trim(device); });
  if (committed != 0)
    report(memory_event_kind::trim, {.address = address_of(0), .bytes = committed});
}

void mapped_region::renew_for_sleep() noexcept {
  if (!holds_memory || !needs(quirk::re_reserve)) return;
  // Where something is still mapped, the addresses cannot be freed.
  if (!addresses->refused().empty() || addresses.use_count() > 1) return;
  switch (addresses->renew()) {
    case renewal::done:
      holds_memory = false;
      return;
    case renewal::refused:  // and reported; a later one may return the memory
      return;
    case renewal::lost:
      holds_memory = false;
      break;
  }
  report_exceptions([this] {
    warn("suspend", "the addresses at " + address_text(base()) + ", " + format_bytes(max_bytes()) +
                        ", were freed so that their memory returns, and others took them before "
                        "they were reserved again: resume() throws until they are free");
  });
}

void mapped_region::take_addresses_back() {
  const std::string advice = "resume: others hold the addresses at " + address_text(base()) +
                             ", which suspend() freed so that their memory returned; all of the "
                             "tag stays asleep: let the others go, and resume again";
  try {
    if (addresses->take_back()) return;
  } catch (const out_of_memory& error) {
    throw out_of_memory{error, advice};
  }
  throw out_of_memory{exhausted::addresses, device.ordinal(), max_bytes(), 0, advice};
}

void mapped_region::begin_to_wake(const mapped_again& each) {
  // What an earlier call could not undo.
  if (!waking.empty()) {
    wait_for_users(users);
    release_all(waking, *addresses);
  }
  if (addresses.use_count() > 1) finish_retired(*addresses, 0, max_bytes());
  const auto make = [this](std::size_t offset, const sleeping_chunk& one) {
    backing& fresh = waking.try_emplace(offset).first->second;
    fresh.own_rights = one.own_rights;
    if (one.first != offset)
      fresh.chunk = reference_to(waking.at(one.first).chunk);
    else
      fresh.chunk = make_with_reclaim([&] { return acquire(one.where, one.bytes, one.memory); });
  };
  // Where rights go by what is around, and where addresses keep the memory of a failure, all chunks
  // come first. Elsewhere one is filled while the next ones are made.
  const bool makes_all_first = needs(quirk::access_from_base) || needs(quirk::re_reserve);
  try {
    for (auto next = asleep.begin(); makes_all_first && next != asleep.end(); ++next)
      make(next->first, next->second);
    auto hidden = asleep.begin();  // the first that work may not see yet
    const auto show_until = [&](moment now) {
      for (; hidden != asleep.end(); ++hidden) {
        const auto at = waking.find(hidden->first);
        if (at == waking.end() || at->second.map.empty() || at->second.visible > now) return;
        each(static_cast<char*>(base()) + at->first, at->second.bytes());
      }
    };
    for (const auto& [offset, one] : asleep) {
      if (!makes_all_first) make(offset, one);
      backing& fresh = waking.at(offset);
      fresh.map =
          map_here(offset, fresh.chunk, one.opens_late ? nullptr : one.own_rights.get(), &waking);
      fresh.visible = visible_if_mapped_now();
      show_until(std::chrono::steady_clock::now());
    }
    if (!waking.empty()) {
      const moment last = waking.rbegin()->second.visible;
      wait_until(last);
      show_until(last);
    }
  } catch (const out_of_memory& error) {
    throw out_of_memory{error, "resume: the region needs " + format_bytes(committed) +
                                   "; all of the tag stays asleep: free memory, and resume again"};
  }
}

void mapped_region::sleep_on(bool may_be_in_use) noexcept {
  if (waking.empty()) return;
  if (std::any_of(waking.begin(), waking.end(),
                  [](const auto& each) { return !each.second.map.empty(); }))
    holds_memory = true;
  if (may_be_in_use && !outlast_refusals(users)) {
    retire_waking();
    return;
  }
  release_all(waking, *addresses);
  renew_for_sleep();
}

void mapped_region::retire_waking() noexcept {
  // Where that cannot be, they stay mapped until the next resume(), or the end of the region.
  report_exceptions([this] {
    std::list<retired_chunks> one;
    retired_chunks& item = one.emplace_back(addresses, cache(), std::nullopt, devices_of(users));
    item.owner = device;
    item.backings.swap(waking);
    if (!retire(one)) item.backings.swap(waking);
  });
}

void mapped_region::finish_waking() noexcept {
  committed = 0;
  merge(waking);
  asleep.clear();
  if (committed != 0)
    report(memory_event_kind::grow, {.address = address_of(0), .bytes = committed});
}

}  // namespace hipvmm::detail
