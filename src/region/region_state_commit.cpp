// SPDX-License-Identifier: MIT
#include <iterator>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include "core/error.hpp"
#include "region/map_runs.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {
namespace {

/// Subtracts `from` from all offsets; the destructor undoes that unless keep() was called.
class shifted_offsets {
 public:
  shifted_offsets(region_state& owner, std::size_t from) noexcept : owner_{owner}, from_{from} {
    backing_map& all = owner_.backings;
    owner_.placement_start += from_;
    // Upwards, so that no two backings have the same offset in between.
    for (auto at = all.begin(); from_ != 0 && at != all.end();) {
      auto node = all.extract(at++);
      node.key() -= from_;
      all.insert(at, std::move(node));
    }
  }
  ~shifted_offsets() {
    backing_map& all = owner_.backings;
    owner_.placement_start -= from_;
    for (auto at = all.end(); from_ != 0 && at != all.begin();) {
      auto node = all.extract(std::prev(at));
      node.key() += from_;
      at = all.insert(at, std::move(node));
    }
  }
  shifted_offsets& operator=(shifted_offsets&&) = delete;
  void keep() noexcept { from_ = 0; }

 private:
  region_state& owner_;
  std::size_t from_;
};

}  // namespace

backing_map region_state::make_missing(const address_range& range, std::size_t offset,
                                       std::size_t bytes, std::size_t largest_chunk) {
  const std::size_t wanted_from = offset;
  const std::size_t end = offset + bytes;
  backing_map additions;
  try {
    while (offset < end) {
      if (const auto overlap = backings_within(backings, offset, 1); !overlap.empty()) {
        offset = overlap.front().first + overlap.front().second.bytes();
        continue;
      }
      const auto next = backings.lower_bound(offset);
      const std::size_t gap = (next == backings.end() ? end : std::min(end, next->first)) - offset;
      const chunk_place place = place_at(offset, &additions);
      const std::size_t size =
          std::min({gap, range.longest_at(offset), place.bytes, largest_chunk});
      if (shares_addresses()) finish_retired(range, offset, size);
      physical_chunk chunk =
          make_chunk(range, offset, size, place, gap,
                     size == gap && next == backings.end() && end >= this->end());
      const std::size_t backed = chunk.bytes();
      additions.try_emplace(offset).first->second.chunk = std::move(chunk);
      offset += backed;
    }
    // After all chunks are made, so that addresses pin nothing if the device is full.
    map_runs runs{*this, {range, range.bytes(), &additions}};
    for (auto& [at, one] : additions) runs.add(at, one.chunk, nullptr, one.map, &one.visible);
    runs.finish();
    return additions;
  } catch (...) {
    std::size_t undone = 0;
    for (const auto& [at, one] : additions) undone += one.chunk.bytes();
    release_all(additions, range, cache());
    // Rethrows all but out_of_memory.
    const std::optional<out_of_memory> refused = refusal_of([] { throw; });
    shortage why = refused->why();
    if (why.cause == exhausted::budget) {
      // Other processes then release enough for the whole commit, not for one chunk.
      why.requested += undone;
      why.available += undone;
    }
    throw out_of_memory{out_of_memory{why}, "the region holds " + format_bytes(committed) + " in " +
                                                std::to_string(backings.size()) +
                                                (backings.size() == 1 ? " chunk" : " chunks") +
                                                ", was asked to hold " + format_bytes(bytes) +
                                                " from offset " + std::to_string(wanted_from) +
                                                ", and stays as it was"};
  }
}

void region_state::require_addresses() {
  if (addresses->is_lost() && !addresses->take_back())
    throw out_of_memory{exhausted::addresses, device.ordinal(), max_bytes(), 0,
                        "others hold the addresses at " + address_text(base()) +
                            ", which were freed while nothing was backed so that memory returned"};
}

void region_state::commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk) {
  require_none_left_behind("commit", offset, bytes);
  prefetch.cancel_or_wait();
  require_addresses();
  std::optional<adoption> adopted;
  if (has_backing_within(prefetch.ready(), offset, bytes)) adopted.emplace(*this);
  backing_map additions = make_ordered(offset, bytes, largest_chunk);
  if (additions.empty()) additions = make_missing(*addresses, offset, bytes, largest_chunk);
  merge(additions);
  if (adopted) adopted->keep();
  prefetch.allow();
  await_visible(offset, bytes);
}

void region_state::move_chunks(const std::vector<std::size_t>& from, std::size_t to) {
  strategy->second_address.require("region::move_chunk");
  if (from.empty()) return;
  drop_prepared();
  std::size_t end = to;
  backing_map additions;  // the new mappings, then those that are left behind
  for (const std::size_t each : from) {
    const auto moving = backings.find(each);
    if (moving == backings.end())
      throw std::invalid_argument{"region::move_chunk: no chunk begins at offset " +
                                  std::to_string(each)};
    backing& one = additions.try_emplace(end).first->second;
    one.own_rights = moving->second.own_rights;
    one.elsewhere = moving->second.chunk.get();
    end += moving->second.bytes();
  }
  const std::size_t bytes = end - to;
  require_within("move_chunk", to, bytes);
  require_free("move_chunk", to, bytes);
  if (shares_addresses()) finish_retired(*addresses, to, bytes);

  try {
    map_runs runs{*this, mapped_here(&additions)};
    auto next = from.begin();
    for (auto& [at, one] : additions)
      runs.add(at, backings.at(*next++).chunk, one.own_rights.get(), one.map, &one.visible);
    runs.finish();
  } catch (...) {
    release_all(additions, *addresses, cache());
    throw;
  }
  for (const std::size_t each : from) {
    auto left = additions.extract(additions.begin());
    auto moved = backings.extract(each);
    std::swap(left.mapped().map, moved.mapped().map);
    moved.mapped().visible = left.mapped().visible;
    moved.mapped().serial = next_serial();
    moved.key() = std::exchange(left.key(), each);
    backings.insert(std::move(moved));
    old_mappings.insert(std::move(left));
  }
  await_visible(to, bytes);
}

void region_state::end_move(std::size_t from) {
  const auto left = old_mappings.find(from);
  if (left == old_mappings.end())
    throw std::invalid_argument{"region::end_move: no chunk that moved is still mapped at offset " +
                                std::to_string(from)};
  left->second.map.unmap();
  old_mappings.erase(left);
  may_pin_memory = true;
}

bool region_state::extend_in_place(std::size_t max_bytes, std::size_t commit_bytes) {
  if (addresses->is_lost() && !addresses->take_back()) return false;
  bool has_grown = false;
  const auto append = [&] {
    address_reservation behind{max_bytes - addresses->bytes(), 0, addresses->end()};
    if (behind.get() != addresses->end()) return;
    addresses->append(std::move(behind));
    has_grown = true;
  };
  if (!attempt(append, [](const shortage& why) { return why.cause == exhausted::addresses; }) ||
      !has_grown)
    return false;
  try {
    commit(0, commit_bytes, region::one_chunk);
  } catch (...) {
    addresses->drop_last();  // with memory that the failure left in them
    throw;
  }
  return true;
}

bool region_state::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  const std::size_t present = addresses->bytes();
  require_none_left_behind("extend", 0, present);
  if (max_bytes == present) {
    commit(0, commit_bytes, region::one_chunk);
    return false;
  }

  prefetch.cancel_or_wait();
  // Not if HIP refuses copies across the border of two reservations.
  if (strategy->extends_in_place && extend_in_place(max_bytes, commit_bytes)) return false;

  rebase(0, max_bytes, commit_bytes);
  return true;
}

void region_state::rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes) {
  prefetch.cancel_or_wait();
  require_none_left_behind("rebase", 0, addresses->bytes());
  // Nothing before the new base may stay, backed or not.
  if (has_backing_within(prefetch.ready(), 0, from)) drop_prepared();
  // All chunks stay mapped at the old addresses until move_to(): a failure changes nothing.
  adoption adopted{*this};
  shifted_offsets shifted{*this, from};
  auto other = make_range(acquire_with_retry([&] { return reserve(std::max(max_bytes, end())); }));
  mapping_list moved{other};
  map_all(moved);
  backing_map additions = make_missing(*other, 0, commit_bytes, region::one_chunk);
  try {
    wait_for_users(users);
  } catch (...) {
    release_all(additions, *other, cache());
    throw;
  }

  move_to(moved);
  if (from != 0)
    for (auto& entry : backings) entry.second.serial = next_serial();
  merge(additions);
  shifted.keep();
  adopted.keep();
  prefetch.take_cancelled();
  prefetch.allow();
  await_visible(0, this->max_bytes());
}

std::size_t region_state::committed_from(std::size_t offset) const noexcept {
  std::size_t end = offset;
  for (const auto& [start, held] : backings_within(backings, offset, max_bytes() - offset)) {
    if (start > end) break;
    end = start + held.bytes();
  }
  return end - offset;
}

void region_state::prepare(std::size_t bytes, prefetch_level how) {
  if (how == prefetch_level::off) return;
  if (!idle)
    idle.emplace(static_cast<idle_holder&>(*this), device, idle_membership::price::prepared);
  prefetch.offer();
  const std::size_t from = end();
  // shares_addresses(): the worker must not wait for retired chunks.
  if (bytes == 0 || from == max_bytes() || !prefetch.is_idle() || shares_addresses() ||
      !old_mappings.empty() || addresses->is_lost())
    return;
  const chunk_place place = place_at(from);
  prefetch.submit(
      {from, std::min({bytes, addresses->longest_at(from), place.bytes}), how, place.where});
}

std::size_t region_state::end() const noexcept {
  if (backings.empty()) return 0;
  const auto& [offset, last] = *backings.rbegin();
  return offset + last.bytes();
}

backing_map region_state::make_ordered(std::size_t offset, std::size_t bytes,
                                       std::size_t largest_chunk) {
  const auto order = prefetch.take_cancelled();
  if (!order || order->offset < offset || order->offset >= offset + bytes) return {};
  const std::size_t end = std::max(offset + bytes, order->offset + order->bytes);
  backing_map additions;
  // A chunk made ahead is not worth memory of others.
  const without_asking_others alone;
  const without_reclaim at_once;
  static_cast<void>(
      attempt([&] { additions = make_missing(*addresses, offset, end - offset, largest_chunk); }));
  return additions;
}

void region_state::drop_prepared() {
  prefetch.cancel_or_wait();
  if (backing_map& ready = prefetch.ready(); !ready.empty()) {
    backing& held = ready.begin()->second;
    if (!held.map.empty()) may_pin_memory = true;
    held.map.unmap();
    recycle(std::move(held.chunk));
    ready.clear();
  }
  prefetch.take_cancelled();
  prefetch.allow();
}

void region_state::drop_prepared_behind(backing_map::const_iterator last) {
  if (last == backings.end()) return drop_prepared();
  prefetch.allow();
}

backing_map region_state::make_ahead(const chunk_prefetch::order& wanted) {
  backing_map additions;
  try {
    const scoped_device scope{device};
    backing& one = additions.try_emplace(wanted.offset).first->second;
    one.chunk = take_pinned(wanted.where, wanted.bytes, wanted.bytes);
    if (one.chunk.empty()) one.chunk = acquire(wanted.where, wanted.bytes, options.memory);
    if (wanted.how == prefetch_level::mapped) map_prepared(wanted.offset, one);
  } catch (...) {
    release_all(additions, *addresses, cache());
    throw;
  }
  return additions;
}

void region_state::map_prepared(std::size_t offset, backing& held) {
  try {
    map_runs one{*this, mapped_here()};
    one.add(offset, held.chunk, nullptr, held.map, &held.visible);
    one.finish();
  } catch (...) {
    addresses->refused().unmap_or_defer(held.map, held.chunk.get());
    throw;
  }
}

given_memory region_state::give_idle(const idle_request& wanted) {
  given_memory given;
  prefetch.give([&](backing_map& ready) {
    backing& held = ready.begin()->second;
    if (held.chunk.location() != wanted.device) return;
    const bool moves = wanted.takes(held.chunk);
    // A release would return nothing while addresses pin the chunk.
    if (!moves && (is_pinned(held.chunk) || (!held.map.empty() && strategy->pins(device)))) return;
    const scoped_device scope{device};
    if (!held.map.empty()) may_pin_memory = true;
    held.map.unmap();
    physical_chunk chunk = std::move(held.chunk);
    ready.clear();
    if (addresses->refused().take_if_mapped(chunk)) return;
    (moves ? given.moved : given.released) = chunk.bytes();
    if (moves) wanted.taker->recycle(std::move(chunk));
  });
  return given;
}

region_state::adoption::adoption(region_state& owner) : owner_{owner} {
  owner.prefetch.cancel_or_wait();
  if (owner.prefetch.ready().empty()) return;
  auto& [offset, held] = *owner.prefetch.ready().begin();
  if (held.map.empty()) owner.map_prepared(offset, held);
  offset_ = offset;
  owner.merge(owner.prefetch.ready());
}

region_state::adoption::~adoption() {
  if (!offset_) return;
  auto node = owner_.backings.extract(*offset_);
  owner_.committed -= node.mapped().bytes();
  owner_.prefetch.ready().insert(std::move(node));
}

}  // namespace hipvmm::detail
