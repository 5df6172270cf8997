// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block_index.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hipvmm::mr::pool {

block_index::block_index(std::size_t address_bytes, std::uintptr_t base, block_owner& idle)
    : base_{base}, address_bytes_{address_bytes}, idle_{idle}, space_{address_bytes} {
  enter_unmapped(space_.front());
}

void block_index::enter_tree(block& one) noexcept {
  block_owner& owner = *one.owner;
  owner.free_.insert(one);
  owner.free_bytes_ += one.bytes;
  if (!owner.is_linked()) owners_.push_back(owner);
  if (is_free(one.previous) || is_free(one.next)) beside_others_.push_back(one);
}

void block_index::leave_tree(block& one) noexcept {
  block_owner& owner = *one.owner;
  owner.free_.erase(one);
  owner.free_bytes_ -= one.bytes;
  one.block_list_hook::unlink();
}

void block_index::enter_unmapped(block& one) noexcept {
  unmapped_.insert(one);
  unmapped_bytes_ += one.bytes;
}

void block_index::leave_unmapped(block& one) noexcept {
  unmapped_.erase(unmapped_.iterator_to(one));
  unmapped_bytes_ -= one.bytes;
}

block* block_index::best_fit(block_owner& from, std::size_t bytes,
                             std::size_t alignment) const noexcept {
  // If few blocks have the alignment, a block that holds the request at any offset serves as well.
  constexpr int patience = 16;
  free_blocks& all = from.free();
  const auto fits = [&](const block& one) {
    return aligned(one.offset, alignment) + bytes <= one.end();
  };
  auto at = all.at_least(bytes);
  for (int looked = 0; at != all.end() && looked < patience; ++at, ++looked) {
    if (fits(*at)) return &*at;
  }
  if (at != all.end()) at = all.at_least(bytes + alignment - unit);
  return at == all.end() ? nullptr : &*at;
}

block* block_index::best_fit_or_idle(block_owner& from, std::size_t bytes,
                                     std::size_t alignment) const noexcept {
  block* const found = best_fit(from, bytes, alignment);
  if (&from == &idle_ || idle_.free().empty()) return found;
  block* const other = best_fit(idle_, bytes, alignment);
  return other != nullptr && (found == nullptr || other->bytes < found->bytes) ? other : found;
}

void block_index::take_whole(block& from) noexcept {
  leave_tree(from);
  from.state = block_state::busy;
}

block& block_index::take(block& from, std::size_t at, std::size_t bytes) noexcept {
  leave_tree(from);
  block* taken = &from;
  if (at != from.offset) taken = &space_.cut(from, at - from.offset);
  block* const rest = bytes != taken->bytes ? &space_.cut(*taken, bytes) : nullptr;
  taken->state = block_state::busy;
  if (taken != &from) enter_tree(from);
  if (rest != nullptr) enter_tree(*rest);
  return *taken;
}

void block_index::claim(block& first, std::size_t begin, std::size_t end, blocks& claimed) {
  block* at = &first;
  while (at->end() <= begin) at = at->next;
  std::size_t count = claimed.size();
  for (const block* each = at; each != nullptr && each->offset < end; each = each->next) ++count;
  claimed.reserve(count);
  prepare_for(2);
  while (at != nullptr && at->offset < end && at->state == block_state::free) {
    const std::size_t from = std::max(begin, at->offset);
    block& taken = take(*at, from, std::min(end, at->end()) - from);
    claimed.push_back(&taken);
    at = taken.next;
  }
}

void block_index::unclaim(const blocks& claimed) noexcept {
  for (block* const each : claimed) make_free(*each);
}

void block_index::make_free(block& loose) noexcept {
  block* joined = &loose;
  // Idle memory beside it joins the owner's block until that has passed: one block serves more
  // requests than two, and freed memory mostly lies beside the idle memory that it came from.
  const auto joins = [&](const block* other) {
    if (other == nullptr || other->state != block_state::free) return false;
    if (other->owner == loose.owner)
      return loose.owner->is_ordered() || other->epoch == loose.epoch;
    return other->owner == &idle_ && loose.owner->is_ordered();
  };
  loose.state = block_state::free;
  if (joins(loose.next)) {
    leave_tree(*loose.next);
    loose.epoch = std::max(loose.epoch, loose.next->epoch);
    space_.join_next(loose);
  }
  if (joins(loose.previous)) {
    joined = loose.previous;
    leave_tree(*joined);
    joined->owner = loose.owner;
    joined->epoch = std::max(joined->epoch, loose.epoch);
    space_.join_next(*joined);
  }
  enter_tree(*joined);
}

block& block_index::make_used(block& first, std::size_t end, block_owner& owner,
                              std::uint64_t epoch) noexcept {
  merge(first, end);
  first.state = block_state::used;
  first.owner = &owner;
  first.epoch = epoch;
  space_.enlist(first);
  used_bytes_ += first.bytes;
  used_high_ = std::max(used_high_, used_bytes_);
  return first;
}

block* block_index::take_used(std::size_t offset, std::size_t bytes) noexcept {
  block* const found = space_.find(offset);
  if (found == nullptr || found->bytes != bytes) return nullptr;
  space_.strike(*found);
  used_bytes_ -= bytes;
  found->state = block_state::busy;
  return found;
}

block& block_index::take_unmapped(block& gap, std::size_t at, std::size_t bytes) noexcept {
  leave_unmapped(gap);
  block& taken = at > gap.offset ? space_.cut(gap, at - gap.offset) : gap;
  if (&taken != &gap) enter_unmapped(gap);
  if (bytes < taken.bytes) enter_unmapped(space_.cut(taken, bytes));
  taken.state = block_state::busy;
  return taken;
}

void block_index::make_leaving(block& old, block_owner& owner, std::uint64_t epoch) noexcept {
  old.state = block_state::leaving;
  old.owner = &owner;
  old.epoch = epoch;
  leaving_.insert(old);
}

void block_index::take_leaving(block& old) noexcept {
  leaving_.erase(leaving_.iterator_to(old));
  old.state = block_state::busy;
}

void block_index::merge(block& first, std::size_t end) noexcept {
  while (first.end() < end) space_.join_next(first);
}

void block_index::make_unmapped(block& loose) noexcept {
  const auto is_unmapped = [](const block* other) {
    return other != nullptr && other->state == block_state::unmapped;
  };
  loose.state = block_state::unmapped;
  block* joined = &loose;
  if (is_unmapped(loose.next)) {
    leave_unmapped(*loose.next);
    space_.join_next(loose);
  }
  if (is_unmapped(loose.previous)) {
    joined = loose.previous;
    leave_unmapped(*joined);
    space_.join_next(*joined);
  }
  enter_unmapped(*joined);
}

std::size_t block_index::least_chunk() const noexcept {
  const auto found = std::find_if(chunks_by_width_.begin(), chunks_by_width_.end(),
                                  [](std::size_t count) { return count != 0; });
  if (found == chunks_by_width_.end()) return address_bytes_;
  const auto width = static_cast<std::size_t>(found - chunks_by_width_.begin());
  return width == 0 ? 0 : std::size_t{1} << (width - 1);
}

void block_index::add_chunk(chunk_map::node_type made, std::size_t offset) noexcept {
  made.mapped().order = next_chunk_++;
  put_chunk(std::move(made), offset);
}

block_index::chunk_map::node_type block_index::take_chunk(std::size_t offset) noexcept {
  chunk_map::node_type taken = chunks_.extract(offset);
  physical_bytes_ -= taken.mapped().bytes;
  --chunks_by_width_[static_cast<std::size_t>(std::bit_width(taken.mapped().bytes))];
  return taken;
}

void block_index::put_chunk(chunk_map::node_type moved, std::size_t offset) noexcept {
  physical_bytes_ += moved.mapped().bytes;
  ++chunks_by_width_[static_cast<std::size_t>(std::bit_width(moved.mapped().bytes))];
  note_high(physical_bytes());
  moved.key() = offset;
  chunks_.insert(std::move(moved));
}

void block_index::reset_highs() noexcept {
  physical_high_ = physical_bytes();
  used_high_ = used_bytes_;
}

void block_index::lower_used_high(std::size_t before, std::size_t bytes) noexcept {
  used_high_ = std::max({before, used_bytes_, used_high_ - std::min(bytes, used_high_)});
}

}  // namespace hipvmm::mr::pool
