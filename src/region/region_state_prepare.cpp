// SPDX-License-Identifier: MIT
// The part of region that makes chunks ahead of commit().
#include <utility>

#include "core/error.hpp"
#include "region/map_runs.hpp"
#include "region/region_state.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {

void region_state::prepare(std::size_t bytes, prefetch_level how) {
  if (how == prefetch_level::off) return;
  if (!idle)
    idle.emplace(static_cast<idle_holder&>(*this), device, idle_membership::price::prepared);
  prefetch.offer();
  const std::size_t from = end();
  // If retired chunks are still mapped, the worker would have to wait for them.
  if (bytes == 0 || from == max_bytes() || !prefetch.is_idle() || shares_addresses() ||
      !old_mappings.empty())
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
  const without_asking_others alone;  // nobody gives memory for a chunk made ahead
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
    // These addresses, or earlier ones of the chunk, would pin the memory.
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
