// SPDX-License-Identifier: MIT
#include "mr/pool/engine.hpp"

#include <algorithm>

#include "mr/pool/miss.hpp"

namespace hipvmm::mr::pool {

engine::engine(physical_side& memory, stream_side& order, std::uintptr_t base)
    : memory_{memory}, order_{order}, base_{base}, space_{memory.address_bytes()} {
  ledgers_.emplace_back(stream_ref::legacy_default(), 0);
}

stream_ledger& engine::ledger_of(stream_ref stream) {
  const books_lock lock{books_};
  for (std::size_t i = 1; i < ledgers_.size(); ++i) {
    stream_ledger& each = ledgers_[i];
    if (each.stream() == stream && !each.is_forgotten()) return each;
  }
  return ledgers_.emplace_back(stream, ledgers_.size());
}

block* engine::best_fit(stream_ledger& from, std::size_t bytes,
                        std::size_t alignment) const noexcept {
  // Where hardly any block has the alignment, one that is large enough anyway is as good.
  constexpr int patience = 16;
  free_tree& tree = from.free();
  auto at = tree.lower_bound(fit_key{bytes, 0});
  for (int looked = 0; at != tree.end(); ++at, ++looked) {
    if (aligned(at->offset, alignment) + bytes <= at->end()) return &*at;
    if (looked == patience) at = tree.lower_bound(fit_key{bytes + alignment - unit, 0});
    if (at == tree.end()) break;
  }
  return nullptr;
}

void engine::take_whole(block& from) noexcept {
  free_tree& tree = from.owner->free();
  tree.erase(tree.iterator_to(from));
  from.state = block_state::busy;
}

block& engine::take(block& from, std::size_t at, std::size_t bytes) noexcept {
  free_tree& tree = from.owner->free();
  tree.erase(tree.iterator_to(from));
  block* taken = &from;
  if (at != from.offset) {
    taken = &space_.cut(from, at - from.offset);
    tree.insert(from);
  }
  if (bytes != taken->bytes) tree.insert(space_.cut(*taken, bytes));
  taken->state = block_state::busy;
  return *taken;
}

void engine::make_used(block& taken) noexcept {
  taken.state = block_state::used;
  space_.enlist(taken);
  counters_.used_bytes += taken.bytes;
  counters_.used_high = std::max(counters_.used_high, counters_.used_bytes);
}

void engine::make_free(block& loose) noexcept {
  block* joined = &loose;
  free_tree& tree = loose.owner->free();
  const auto joins = [&loose](const block* other) {
    return other != nullptr && other->state == block_state::free && other->owner == loose.owner;
  };
  loose.state = block_state::free;
  if (joins(loose.next)) {
    tree.erase(tree.iterator_to(*loose.next));
    loose.stamp = std::max(loose.stamp, loose.next->stamp);
    space_.join_next(loose);
  }
  if (joins(loose.previous)) {
    joined = loose.previous;
    tree.erase(tree.iterator_to(*joined));
    joined->stamp = std::max(joined->stamp, loose.stamp);
    space_.join_next(*joined);
  }
  tree.insert(*joined);
}

void engine::make_unmapped(block& loose) noexcept {
  const auto is_unmapped = [](const block* other) {
    return other != nullptr && other->state == block_state::unmapped;
  };
  loose.state = block_state::unmapped;
  if (is_unmapped(loose.next)) space_.join_next(loose);
  if (is_unmapped(loose.previous)) space_.join_next(*loose.previous);
}

std::optional<std::size_t> engine::allocate(stream_ledger& user, std::size_t bytes,
                                            std::size_t alignment) {
  {
    const books_lock lock{books_};
    space_.prepare_for(2);
    block* found = best_fit(user, bytes, alignment);
    if (!user.is_idle() && !idle().free().empty()) {
      block* const other = best_fit(idle(), bytes, alignment);
      if (other != nullptr && (found == nullptr || other->bytes < found->bytes)) found = other;
    }
    if (found != nullptr) {
      block& taken = take(*found, aligned(found->offset, alignment), bytes);
      make_used(taken);
      ++counters_.served[static_cast<std::size_t>(rung::own)];
      return taken.offset;
    }
  }
  return miss{*this, user, bytes, alignment}.serve();
}

bool engine::deallocate(stream_ledger& user, std::size_t offset, std::size_t bytes) noexcept {
  const books_lock lock{books_};
  block* const given = space_.find(offset);
  if (given == nullptr || given->bytes != bytes) return false;
  space_.strike(*given);
  counters_.used_bytes -= bytes;
  given->owner = &user;
  given->stamp = user.stamp();
  make_free(*given);
  return true;
}

void engine::note_follows(stream_ledger& waiter, stream_ledger& other) {
  const books_lock lock{books_};
  waiter.inherit(other);
  waiter.note_follows(other, other.end_stamp());
}

void engine::set_rules(reuse_rules rules) {
  const books_lock lock{books_};
  rules_ = rules;
}

void engine::set_limit(std::size_t physical_bytes) {
  const books_lock lock{books_};
  limit_ = physical_bytes;
}

engine_counters engine::counters() {
  const books_lock lock{books_};
  return counters_;
}

}  // namespace hipvmm::mr::pool
