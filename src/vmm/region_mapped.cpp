// SPDX-License-Identifier: MIT
// What a region of mapped chunks does at each call, made of the steps in region_state.cpp.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "vmm/detached_chunk.hpp"
#include "vmm/device_work.hpp"
#include "vmm/region_state.hpp"
#include "vmm/retirement.hpp"

namespace hipvmm {

void region::mapped::commit(std::size_t offset, std::size_t bytes) {
  require_none_left_behind("commit", offset, bytes);
  preparation.settle();
  std::optional<adoption> adopted;
  if (is_prepared_within(offset, bytes)) adopted.emplace(*this);
  backing_map made;
  try {
    made = make_ordered(offset, bytes);
    if (made.empty()) made = make_missing_or_explain(*addresses, offset, bytes);
  } catch (...) {
    // What was mapped before the failure is not any more.
    holds_memory = true;
    throw;
  }
  merge(made);
  if (adopted) adopted->keep();
  may_prepare = true;
  await_visible(offset, bytes);
}

std::size_t region::mapped::decommit(std::size_t offset, std::size_t bytes) {
  drop_prepared();
  const std::size_t end_offset = offset + bytes;
  const auto first = backings.lower_bound(offset);
  auto last = first;
  while (last != backings.end() && last->first + last->second.bytes() <= end_offset) ++last;

  // The memory of a chunk is not given to others while it is mapped here.
  for (const auto& [from, left] : left_behind) {
    for (auto at = first; at != last; ++at)
      if (left.elsewhere == at->second.chunk.get()) require_none_left_behind("decommit", from, 1);
  }
  if (first != last) holds_memory = true;
  for (auto at = first; at != last; ++at) {
    try {
      // One unmap for each mapping: ROCm before 7.0 keeps a reservation busy after an unmap that
      // spans several (ROCm/ROCR-Runtime#285).
      at->second.map.unmap();
    } catch (...) {
      for (auto undone = first; undone != at;) restore(undone++);
      throw;
    }
  }
  std::size_t returned = 0;
  for (auto at = first; at != last; at = backings.erase(at)) {
    returned += at->second.bytes();
    cache().recycle(std::move(at->second.chunk));
  }
  committed -= returned;
  if (backings.empty() && must_renew()) renew_addresses();
  return returned;
}

void region::mapped::move_chunk(std::size_t from, std::size_t to) {
  if (!can_move_chunks())
    throw unsupported{"region::move_chunk: device " + std::to_string(device.ordinal()) +
                      " does not show the same bytes at two addresses of one chunk: " +
                      known.reason(trait::coherent_aliases)};
  drop_prepared();
  const auto moving = backings.find(from);
  if (moving == backings.end())
    throw std::invalid_argument{"region::move_chunk: no chunk begins at offset " +
                                std::to_string(from)};
  const std::size_t bytes = moving->second.bytes();
  require_within("move_chunk", to, bytes);
  require_none_left_behind("move_chunk", to, bytes);
  if (is_backed_within(to, bytes) || addresses->longest_at(to) < bytes)
    throw std::invalid_argument{"region::move_chunk: the " + format_bytes(bytes) + " at offset " +
                                std::to_string(to) +
                                " are partly backed already, or lie in two reservations"};
  if (addresses.use_count() > 1) detail::finish_retired(*addresses, to, bytes);

  backing_map left;
  backing& old = left.try_emplace(from).first->second;
  old.map = map_here(to, moving->second.chunk);
  old.elsewhere = moving->second.chunk.get();
  std::swap(old.map, moving->second.map);
  moving->second.visible = visible_if_mapped_now();
  auto node = backings.extract(moving);
  node.key() = to;
  backings.insert(std::move(node));
  left_behind.merge(left);
  await_visible(to, bytes);
}

void region::mapped::end_move(std::size_t from) {
  const auto left = left_behind.find(from);
  if (left == left_behind.end())
    throw std::invalid_argument{"region::end_move: no chunk that moved is still mapped at offset " +
                                std::to_string(from)};
  left->second.map.unmap();
  left_behind.erase(left);
  holds_memory = true;
}

detail::detached_chunk detail::detach_chunk(region& from, std::size_t offset) {
  auto& self = dynamic_cast<region::mapped&>(from.live());
  self.drop_prepared();
  const auto found = self.backings.find(offset);
  if (found == self.backings.end())
    throw std::invalid_argument{"no chunk of the region begins at offset " +
                                std::to_string(offset)};
  self.holds_memory = true;
  self.committed -= found->second.bytes();
  detached_chunk detached{self.addresses, std::move(found->second)};
  self.backings.erase(found);
  return detached;
}

detail::detached_chunk detail::detach_left_behind(region& from, std::size_t offset) {
  auto& self = dynamic_cast<region::mapped&>(from.live());
  const auto found = self.left_behind.find(offset);
  if (found == self.left_behind.end())
    throw std::invalid_argument{"no chunk that moved is still mapped at offset " +
                                std::to_string(offset)};
  self.holds_memory = true;
  detached_chunk detached{self.addresses, std::move(found->second)};
  self.left_behind.erase(found);
  return detached;
}

void region::mapped::grant(device_ref to, access_right right) {
  access_map next = rights;
  next.set(to, right);
  // What is ready gets the right together with the rest.
  const adoption adopted{*this};
  std::vector<const backing_map::value_type*> all;
  all.reserve(backings.size() + left_behind.size());
  for (const backing_map* const map : {&backings, &left_behind})
    for (const auto& entry : *map) all.push_back(&entry);
  const auto apply = [&](const backing_map::value_type* entry, const access_map& chosen) {
    set_rights(entry->first, entry->second.bytes(), chosen, to);
  };
  for (auto at = all.begin(); at != all.end(); ++at) {
    try {
      apply(*at, next);
    } catch (...) {
      // The one that failed too: HIP may have applied its first entries.
      for (auto undone = all.begin(); undone != std::next(at); ++undone)
        detail::report_exceptions([&] { apply(*undone, rights); });
      throw;
    }
  }
  rights = std::move(next);
}

std::size_t region::mapped::trim(std::size_t bytes, stream_ref stream,
                                 straddling_chunk straddling) {
  require_none_left_behind("trim", 0, max_bytes());
  const std::size_t kept_end = align_up(bytes, granularity);
  const std::size_t before = committed;
  const bool replace = straddling == straddling_chunk::replace;
  drop_prepared();
  // Addresses can be renewed only when nothing is mapped in them any more.
  const bool empties = renews && (backings.empty() || backings.begin()->first >= kept_end);
  if (replace || empties || (!stream.is_done() && !retire_behind(kept_end, stream)))
    stream.synchronize();
  decommit(kept_end, max_bytes() - kept_end);
  if (replace) {
    replace_straddler(kept_end, stream);
    if (must_renew()) renew_addresses();
  }
  return before - committed;
}

bool region::mapped::extend_in_place(std::size_t max_bytes, std::size_t commit_bytes) {
  try {
    address_reservation behind{max_bytes - addresses->bytes(), 0, addresses->end()};
    if (behind.get() != addresses->end()) return false;
    addresses->append(std::move(behind));
  } catch (const out_of_memory& error) {
    if (error.resource() != exhausted::addresses) throw;
    return false;
  }
  try {
    commit(0, commit_bytes);
  } catch (...) {
    addresses->drop_last();
    throw;
  }
  return true;
}

bool region::mapped::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  const std::size_t present = addresses->bytes();
  require_none_left_behind("extend", 0, present);
  if (max_bytes == present) {
    commit(0, commit_bytes);
    return false;
  }

  preparation.settle();
  // Copies of the program's own must not meet a border that they cannot cross.
  if (!known.needs(quirk::one_reservation) && extend_in_place(max_bytes, commit_bytes))
    return false;

  // The chunks are mapped twice for a moment, so that a failure leaves the old addresses whole.
  adoption adopted{*this};
  auto larger = std::make_shared<address_range>(
      detail::make_with_reclaim([max_bytes] { return address_reservation{max_bytes}; }));
  mapping_list moved = map_all_in(*larger);
  backing_map made = make_missing_or_explain(*larger, 0, commit_bytes);
  detail::wait_for_users(rights);

  move_to(larger, moved);
  merge(made);
  adopted.keep();
  ordered.reset();
  may_prepare = true;
  await_visible(0, this->max_bytes());
  return true;
}

std::size_t region::mapped::committed_from(std::size_t offset) const noexcept {
  auto at = backings.upper_bound(offset);
  if (at == backings.begin()) return 0;
  --at;
  const std::size_t start = offset;
  while (at != backings.end() && at->first <= offset) {
    offset = std::max(offset, at->first + at->second.bytes());
    ++at;
  }
  return offset - start;
}

}  // namespace hipvmm
