// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block_index.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hipvmm::mr::pool {

block_index::block_index(std::size_t address_bytes, std::uintptr_t base, block_owner& idle)
    : base_{base},
      address_bytes_{address_bytes},
      idle_{idle},
      front_{&blocks_.emplace_back()},
      buckets_(64),
      used_{used_table::bucket_traits{buckets_.data(), buckets_.size()}} {
  front_->bytes = address_bytes;
  enter_unmapped(*front_);
}

void block_index::prepare_for(std::size_t count) {
  while (spare_count_ < count + kept_spare * (1 + growths_)) {
    block& added = blocks_.emplace_back();
    added.next = spare_;
    spare_ = &added;
    ++spare_count_;
  }
  if (used_.size() + count > buckets_.size()) {
    std::vector<used_table::bucket_type> larger(2 * std::bit_ceil(used_.size() + count));
    used_.rehash(used_table::bucket_traits{larger.data(), larger.size()});
    buckets_ = std::move(larger);
  }
}

block& block_index::cut(block& whole, std::size_t bytes) noexcept {
  block& rest = *spare_;
  spare_ = rest.next;
  --spare_count_;
  rest.offset = whole.offset + bytes;
  rest.bytes = whole.bytes - bytes;
  rest.owner = whole.owner;
  rest.epoch = whole.epoch;
  rest.state = whole.state;
  rest.previous = &whole;
  rest.next = whole.next;
  if (rest.next != nullptr) rest.next->previous = &rest;
  whole.next = &rest;
  whole.bytes = bytes;
  return rest;
}

void block_index::join_next(block& one) noexcept {
  block& behind = *one.next;
  one.bytes += behind.bytes;
  one.next = behind.next;
  if (one.next != nullptr) one.next->previous = &one;
  behind.next = spare_;
  spare_ = &behind;
  ++spare_count_;
}

block* block_index::find(std::size_t offset) noexcept {
  const auto at = used_.find(offset);
  return at == used_.end() ? nullptr : &*at;
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
  // If few blocks are aligned, takes one that holds the request at any offset.
  constexpr int patience = 16;
  free_blocks& all = from.free();
  const auto fits = [&](const block& one) {
    return aligned(one.offset, alignment) + bytes <= one.end();
  };
  block* at = all.at_least(bytes);
  for (int looked = 0; at != nullptr && looked < patience; at = all.after(*at), ++looked) {
    if (fits(*at)) return at;
  }
  return at == nullptr ? nullptr : all.at_least(bytes + alignment - unit);
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
  if (at != from.offset) taken = &cut(from, at - from.offset);
  block* const rest = bytes != taken->bytes ? &cut(*taken, bytes) : nullptr;
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
  // Idle memory joins an adjacent freed block, mostly the one that it was cut from, until the owner
  // has passed the free: one block serves more requests than two.
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
    join_next(loose);
  }
  if (joins(loose.previous)) {
    joined = loose.previous;
    leave_tree(*joined);
    joined->owner = loose.owner;
    joined->epoch = std::max(joined->epoch, loose.epoch);
    join_next(*joined);
  }
  enter_tree(*joined);
}

block& block_index::make_used(block& first, std::size_t end, block_owner& owner,
                              std::uint64_t epoch) noexcept {
  merge(first, end);
  first.state = block_state::used;
  first.owner = &owner;
  first.epoch = epoch;
  used_.insert(first);
  used_bytes_ += first.bytes;
  used_high_ = std::max(used_high_, used_bytes_);
  return first;
}

block* block_index::take_used(std::size_t offset, std::size_t bytes) noexcept {
  block* const found = find(offset);
  if (found == nullptr || found->bytes != bytes) return nullptr;
  used_.erase(used_.iterator_to(*found));
  used_bytes_ -= bytes;
  found->state = block_state::busy;
  return found;
}

block& block_index::take_unmapped(block& gap, std::size_t at, std::size_t bytes) noexcept {
  leave_unmapped(gap);
  block& taken = at > gap.offset ? cut(gap, at - gap.offset) : gap;
  if (&taken != &gap) enter_unmapped(gap);
  if (bytes < taken.bytes) enter_unmapped(cut(taken, bytes));
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
  while (first.end() < end) join_next(first);
}

void block_index::make_unmapped(block& loose) noexcept {
  const auto is_unmapped = [](const block* other) {
    return other != nullptr && other->state == block_state::unmapped;
  };
  loose.state = block_state::unmapped;
  block* joined = &loose;
  if (is_unmapped(loose.next)) {
    leave_unmapped(*loose.next);
    join_next(loose);
  }
  if (is_unmapped(loose.previous)) {
    joined = loose.previous;
    leave_unmapped(*joined);
    join_next(*joined);
  }
  enter_unmapped(*joined);
}

std::size_t block_index::least_chunk() const noexcept {
  const auto found =
      std::ranges::find_if(chunks_by_width_, [](std::size_t count) { return count != 0; });
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
