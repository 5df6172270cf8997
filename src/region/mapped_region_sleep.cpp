// SPDX-License-Identifier: MIT
// The part of region that gives its memory back and keeps its addresses, for suspend() of its tag,
// and makes the memory again.
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "region/device_work.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {

void mapped_region::require_can_sleep(std::size_t offset, const backing& held, keep what) const {
  const std::string which = "suspend: the chunk at offset " + std::to_string(offset) +
                            " of the region at " + address_text(base());
  if (held.chunk.shared() || is_retained(held.chunk))
    throw std::invalid_argument{which +
                                " was exported, imported or retained: others may use its memory, "
                                "which would not return; leave the region without a tag"};
  const access_map& its = held.own_rights ? *held.own_rights : rights;
  const device_ref copies = held.chunk.device();
  if (what == keep::contents && its.get(copies) != access_right::read_write)
    throw std::invalid_argument{which + " gives device " + std::to_string(copies.ordinal()) +
                                ", which copies it, no read_write: grant it first, or suspend "
                                "with keep::nothing"};
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
  for (const auto& [offset, held] : backings) {
    require_can_sleep(offset, held, what);
    asleep.emplace(offset, sleeping_chunk{held.bytes(), held.chunk.location(), held.chunk.device(),
                                          held.chunk.memory(), held.own_rights});
  }
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

std::vector<sleeping_range> mapped_region::ranges() const {
  std::vector<sleeping_range> result;
  result.reserve(asleep.size());
  for (const auto& [offset, one] : asleep)
    result.push_back({static_cast<char*>(base()) + offset, one.bytes, one.device});
  return result;
}

void mapped_region::unmap_to_sleep() {
  if (!backings.empty()) holds_memory = true;
  // From the end, so that what is mapped is never beside a hole that was not there: its rights
  // might be refused when it is mapped again.
  for (auto at = backings.end(); at != backings.begin();) {
    --at;
    try {
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
  report(memory_event_kind::trim, {.address = address_of(0), .bytes = committed});
}

void mapped_region::renew_for_sleep() noexcept {
  if (!holds_memory || !needs(quirk::re_reserve)) return;
  // Where something is still mapped, the addresses cannot be freed.
  if (!addresses->refused().empty() || addresses.use_count() > 1) return;
  static_cast<void>(await_records());
  holds_memory = false;
  if (addresses->renew()) return;
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

void mapped_region::begin_to_wake() {
  try {
    for (const auto& [offset, one] : asleep) {
      backing& fresh = waking.try_emplace(offset).first->second;
      fresh.own_rights = one.own_rights;
      fresh.chunk =
          make_with_reclaim([&, &one = one] { return acquire(one.where, one.bytes, one.memory); });
    }
    for (auto& [offset, one] : waking) {
      one.map = map_here(offset, one.chunk, one.own_rights.get(), &waking);
      one.visible = visible_if_mapped_now();
    }
  } catch (const out_of_memory& error) {
    sleep_on();
    throw out_of_memory{error, "resume: the region needs " + format_bytes(committed) +
                                   "; all of the tag stays asleep: free memory, and resume again"};
  } catch (...) {
    sleep_on();
    throw;
  }
  if (!waking.empty()) wait_until(waking.rbegin()->second.visible);
}

void mapped_region::sleep_on() noexcept {
  if (waking.empty()) return;
  static_cast<void>(outlast_refusals(users));
  const bool was_mapped = std::any_of(waking.begin(), waking.end(),
                                      [](const auto& each) { return !each.second.map.empty(); });
  release_all(waking, *addresses);
  holds_memory = holds_memory || was_mapped;
  renew_for_sleep();
}

void mapped_region::finish_waking() noexcept {
  committed = 0;
  merge(waking);
  asleep.clear();
  report(memory_event_kind::grow, {.address = address_of(0), .bytes = committed});
}

}  // namespace hipvmm::detail
