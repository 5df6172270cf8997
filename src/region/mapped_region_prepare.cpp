// SPDX-License-Identifier: MIT
// The part of region that makes chunks ahead of commit().
#include <algorithm>
#include <optional>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "region/mapped_region.hpp"

namespace hipvmm::detail {

void mapped_region::prepare(std::size_t bytes, prefetch_level how) {
  // Where retired chunks are still mapped the worker would have to wait for them.
  if (how == prefetch_level::off || preparation.pending() || !prepared.empty() || !may_prepare ||
      addresses.use_count() > 1 || !left_behind.empty())
    return;
  const std::size_t from = end();
  if (bytes == 0 || from == max_bytes()) return;
  const chunk_place place = place_at(from);
  ordered = {from, std::min({bytes, addresses->longest_at(from), place.bytes}), how, place.where};
  if (!preparation.submit()) note_failed_preparation();
}

std::size_t mapped_region::prepared_bytes() const noexcept {
  return preparation.pending() || prepared.empty() ? 0 : prepared.begin()->second.bytes();
}

std::size_t mapped_region::end() const noexcept {
  if (backings.empty()) return 0;
  const auto& [offset, last] = *backings.rbegin();
  return offset + last.bytes();
}

bool mapped_region::is_prepared_within(std::size_t offset, std::size_t bytes) const noexcept {
  if (prepared.empty()) return false;
  const auto& [first, held] = *prepared.begin();
  return first < offset + bytes && offset < first + held.bytes();
}

backing_map mapped_region::make_ordered(std::size_t offset, std::size_t bytes) {
  const auto order = std::exchange(ordered, std::nullopt);
  if (!order || order->offset < offset || order->offset >= offset + bytes) return {};
  const std::size_t end = std::max(offset + bytes, order->offset + order->bytes);
  try {
    return make_missing(*addresses, offset, end - offset);
  } catch (const out_of_memory&) {
    return {};
  }
}

void mapped_region::drop_prepared() {
  preparation.cancel_or_wait();
  if (!prepared.empty()) {
    backing& held = prepared.begin()->second;
    if (!held.map.empty()) holds_memory = true;
    held.map.unmap();
    recycle(std::move(held.chunk));
    prepared.clear();
  }
  ordered.reset();
  may_prepare = true;
}

void mapped_region::drop_prepared_behind(backing_map::const_iterator last) {
  if (last == backings.end()) return drop_prepared();
  may_prepare = true;
}

void mapped_region::note_failed_preparation() noexcept {
  ordered.reset();
  may_prepare = false;
  ++failures;
}

void mapped_region::make_prepared() noexcept {
  backing_map made;
  try {
    const scoped_device scope{device};
    backing& one = made.try_emplace(ordered->offset).first->second;
    one.chunk = acquire(ordered->where, ordered->bytes, options.memory);
    if (ordered->how == prefetch_level::mapped) {
      one.map = map_here(ordered->offset, one.chunk);
      one.visible = visible_if_mapped_now();
    }
    prepared.swap(made);
    ordered.reset();
  } catch (...) {
    release_all(made, *addresses);
    // The commit that needs the chunk meets the same failure, or finds it gone.
    note_failed_preparation();
  }
}

mapped_region::adoption::adoption(mapped_region& owner) : owner_{owner} {
  owner.preparation.cancel_or_wait();
  if (owner.prepared.empty()) return;
  auto& [offset, held] = *owner.prepared.begin();
  if (held.map.empty()) {
    held.map = owner.map_here(offset, held.chunk);
    held.visible = owner.visible_if_mapped_now();
  }
  offset_ = offset;
  owner.merge(owner.prepared);
}

mapped_region::adoption::~adoption() {
  if (!offset_) return;
  auto node = owner_.backings.extract(*offset_);
  owner_.committed -= node.mapped().bytes();
  owner_.prepared.insert(std::move(node));
}

}  // namespace hipvmm::detail
