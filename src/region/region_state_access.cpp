// SPDX-License-Identifier: MIT
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/error.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"
#include "vmm/access.hpp"

namespace hipvmm::detail {
namespace {

void add_users(device_list& to, const access_map& from) {
  for (const access_desc& entry : from.entries())
    if (std::ranges::find(to, entry.device) == to.end()) to.push_back(entry.device);
}

void add_changes(std::vector<access_desc>& to, const access_map& before, const access_map& after) {
  for_each_change(before, after, [&to](device_ref device, access_right right) {
    if (std::ranges::find(to, device, &access_desc::device) == to.end())
      to.push_back({device, right});
  });
}

}  // namespace

template <class Change>
void region_state::change_access(const mapped_ranges& there, std::size_t offset, std::size_t bytes,
                                 rights_for which, Change change) const {
  const address_range& range = there.range;
  const auto at = [&range](std::size_t where) { return static_cast<char*>(range.base()) + where; };
  const std::uint64_t seen = retired_so_far();
  const bool is_own = &range == addresses.get();
  // Retired chunks are mapped, and in none of the maps below.
  const bool has_retired = is_own && shares_addresses();
  std::optional<hip_error> refused;
  if (strategy->rights.begins_with_mapping(range.had_one_size())) {
    refused = refusal_of(hipErrorInvalidValue, [&] { change(at(offset), bytes); });
    if (!refused) return;
  }
  const std::size_t part = range.part_start(offset);
  const std::size_t part_bytes = offset - part + range.longest_at(offset);
  if (has_retired) finish_retired(range, part, part_bytes);

  mapped_sizes sizes;
  bool has_same_rights = which == rights_for::all;
  bool is_listed = false;
  const auto add_all = [&](const backing_map& from, std::size_t end) {
    for (const auto& [where, held] : from) {
      if (held.map.empty() || where < part || where >= part + part_bytes || where >= end) continue;
      sizes.add(where, held.bytes());
      has_same_rights = has_same_rights && held.own_rights == nullptr;
      is_listed = is_listed || where == offset;
    }
  };
  add_all(backings, there.backed_end);
  if (there.additions != nullptr) add_all(*there.additions, range.bytes());
  if (is_own) {
    add_all(old_mappings, range.bytes());
    add_all(prefetch.ready(), range.bytes());
  }
  if (!is_listed) sizes.add(offset, bytes);
  range.refused().for_each([&](const void* address, std::size_t held) {
    const std::size_t where = static_cast<std::size_t>(static_cast<const char*>(address) - at(0));
    if (where >= part && where < part + part_bytes) sizes.add(where, held);
  });
  switch (rights_setting::next(sizes, bytes, has_same_rights, refused.has_value(),
                               retired_so_far() != seen)) {
    case rights_range::reservation:
      return change(at(sizes.start()), sizes.bytes());
    case rights_range::mapping:
      return change(at(offset), bytes);
    case rights_range::none:
      break;
  }
  if (refused) throw hip_error{*refused};
  throw unsupported{"region: device " + std::to_string(strategy->rights.refusing.ordinal()) +
                    " cannot be granted the " + format_bytes(bytes) + " at offset " +
                    std::to_string(offset) +
                    (has_same_rights ? " beside a hole and chunks of other sizes ("
                                     : " beside chunks of other sizes with other rights (") +
                    *strategy->rights.why +
                    "); leave no hole between committed bytes, or commit in steps of one size"};
}

struct region_state::rights_run {
  std::size_t offset;
  std::size_t bytes;
  device_ref owner;
  rights_for which;
  const access_map* before;
  const access_map* after;
  std::vector<std::size_t> sizes;  // of the mappings
};

std::vector<region_state::rights_run> region_state::runs_of(const rights_changes& changes,
                                                            const access_map& next) const {
  std::vector<rights_run> runs;
  for (const auto& [offset, held, own] : changes) {
    const std::size_t bytes = held->bytes();
    const bool is_of_all = own == nullptr && held->own_rights == nullptr;
    const rights_run one{offset,
                         bytes,
                         held->map.device(),
                         is_of_all ? rights_for::all : rights_for::these,
                         &rights_to(*held),
                         own ? own.get() : &next,
                         {bytes}};
    if (strategy->rights.takes_runs && !runs.empty()) {
      rights_run& last = runs.back();
      if (last.offset + last.bytes == offset && last.owner == one.owner &&
          last.which == one.which && *last.before == *one.before && *last.after == *one.after &&
          addresses->part_start(last.offset) == addresses->part_start(offset)) {
        last.bytes += bytes;
        last.sizes.push_back(bytes);
        continue;
      }
    }
    runs.push_back(one);
  }
  return runs;
}

void region_state::set_run(const rights_run& run, const access_map& before,
                           const access_map& after) const {
  const auto set = [&](std::size_t offset, std::size_t bytes) {
    change_access(mapped_here(), offset, bytes, run.which, [&](void* start, std::size_t length) {
      detail::set_rights(start, length, after, run.owner, &before);
    });
  };
  if (run.sizes.size() > 1 &&
      !refusal_of(hipErrorInvalidValue, [&] { set(run.offset, run.bytes); }))
    return;
  std::size_t offset = run.offset;
  for (const std::size_t bytes : run.sizes) {
    set(offset, bytes);
    offset += bytes;
  }
}

std::vector<access_desc> region_state::change_rights(rights_changes& changes, access_map next) {
  std::ranges::sort(changes, {}, &rights_change::offset);
  memory_users next_users = users;
  add_users(next_users.devices, next);
  for (const auto& [offset, held, own] : changes) {
    require_reach(own ? *own : next, held->map.device());
    if (own) add_users(next_users.devices, *own);
  }
  const std::vector<rights_run> runs = runs_of(changes, next);
  std::vector<access_desc> changed;
  for (const rights_run& run : runs) add_changes(changed, *run.before, *run.after);
  add_changes(changed, rights, next);
  if (!runs.empty()) wait_before_grant(users);
  for (auto at = runs.begin(); at != runs.end(); ++at) {
    try {
      set_run(*at, *at->before, *at->after);
    } catch (...) {
      // Including the failed run: HIP may have set some of its rights.
      for (auto undone = runs.begin(); undone != std::next(at); ++undone)
        report_exceptions([&] { set_run(*undone, *undone->after, *undone->before); });
      throw;
    }
  }
  for (rights_change& each : changes) each.held->own_rights = std::move(each.own);
  rights = std::move(next);
  users = std::move(next_users);
  forget_unused();
  return changed;
}

template <class Own>
std::vector<access_desc> region_state::change_all_rights(access_map next, Own own_of) {
  // The prepared chunk gets the rights together with the rest.
  const adoption adopted{*this};
  rights_changes changes;
  changes.reserve(backings.size() + old_mappings.size());
  for (backing_map* const map : {&backings, &old_mappings})
    for (auto& [offset, held] : *map) changes.push_back({offset, &held, own_of(held)});
  return change_rights(changes, std::move(next));
}

void region_state::grant(device_ref to, access_right right) {
  prefetch.cancel_or_wait();
  forget_unused();
  access_map next = rights;
  next.set(to, right);
  change_all_rights(next, [&](const backing& held) -> std::shared_ptr<const access_map> {
    if (!held.own_rights) return nullptr;
    access_map own = *held.own_rights;
    own.set(to, right);
    return own == next ? nullptr : std::make_shared<const access_map>(std::move(own));
  });
}

std::vector<access_desc> region_state::set_access(const access_list& wanted) {
  prefetch.cancel_or_wait();
  forget_unused();
  access_map next = rights_of(device, wanted, options.placement);
  for (const device_ref each : rights.other_owners()) next.add_owner(each);
  return change_all_rights(std::move(next),
                           [](const backing&) { return std::shared_ptr<const access_map>{}; });
}

std::vector<access_desc> region_state::set_access(std::size_t offset, std::size_t bytes,
                                                  const access_list& wanted) {
  prefetch.cancel_or_wait();
  // Devices need not reach chunks of rights.other_owners().
  const access_map chosen = rights_of(device, wanted, options.placement);
  if (bytes == 0) return {};
  const auto own = chosen == rights ? nullptr : std::make_shared<const access_map>(chosen);
  rights_changes changes;
  const std::size_t end = offset + bytes;
  for (std::size_t next = offset; next < end; next += changes.back().held->bytes()) {
    const auto found = backings_within(backings, next, 1);
    if (found.empty())
      throw std::invalid_argument{"region::set_access: nothing is backed at offset " +
                                  std::to_string(next) + ", in the " + std::to_string(bytes) +
                                  " bytes from offset " + std::to_string(offset) +
                                  ": name whole chunks that are there; chunks backed later get "
                                  "the rights of the whole region"};
    auto& [start, held] = found.front();
    if (start != next || start + held.bytes() > end)
      refuse_cut("set_access", offset, bytes, found.front());
    changes.push_back({next, &held, own});
  }
  // A chunk that moves has two addresses.
  const std::size_t count = changes.size();
  for (auto& [from, left] : old_mappings)
    for (std::size_t index = 0; index < count; ++index)
      if (left.elsewhere == changes[index].held->chunk.get()) changes.push_back({from, &left, own});
  return change_rights(changes, rights);
}

const access_map& region_state::rights_at(std::size_t offset) const {
  const auto found = backings_within(backings, offset, 1);
  if (offset >= max_bytes() || found.empty())
    throw std::invalid_argument{"region::rights_at: nothing is backed at offset " +
                                std::to_string(offset)};
  return rights_to(found.front().second);
}

std::vector<chunk_access> region_state::effective_access(std::size_t offset,
                                                         std::size_t bytes) const {
  const int devices = device_count();
  std::vector<chunk_access> result;
  for (const auto& [start, held] : backings_within(backings, offset, bytes)) {
    std::vector<access_desc> found;
    for (int ordinal = 0; ordinal < devices; ++ordinal)
      found.push_back({device_ref{ordinal}, get_access(held.map.get(), device_ref{ordinal})});
    result.push_back({start, held.bytes(), access_list{std::move(found)}});
  }
  return result;
}

// access_map has checked only that devices reach its owner.
void region_state::require_reach(const access_map& of, device_ref owner) {
  if (owner == of.owner()) return;
  for (const access_desc& entry : of.entries()) detail::require_reach(entry.device, owner);
}

void region_state::set_first_rights(const mapped_ranges& there, std::size_t offset,
                                    std::size_t bytes, device_ref owner,
                                    const access_map* own) const {
  change_access(there, offset, bytes, own != nullptr ? rights_for::these : rights_for::all,
                [&](void* start, std::size_t length) {
                  detail::set_rights(start, length, own != nullptr ? *own : rights, owner);
                });
}

moment region_state::visible_if_mapped_now() const {
  if (strategy->visible_after.count() == 0) return {};
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(strategy->visible_after);
}

void region_state::await_visible(std::size_t offset, std::size_t bytes) const noexcept {
  moment last{};
  for (const auto& [start, held] : backings_within(backings, offset, bytes))
    last = std::max(last, held.visible);
  wait_until(last);
}

}  // namespace hipvmm::detail
