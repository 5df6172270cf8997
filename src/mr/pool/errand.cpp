// SPDX-License-Identifier: MIT
#include "mr/pool/errand.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>

namespace hipvmm::mr::pool {

errand::errand(engine& all, stream_ledger& user, std::size_t bytes, std::size_t alignment)
    : all_{all}, user_{user}, bytes_{bytes}, alignment_{alignment} {
  const books_lock lock{all_.books_};
  for (stream_ledger& each : all_.ledgers_) {
    if (!each.is_vacant()) ledgers_.push_back(&each);
  }
}

std::optional<std::size_t> errand::serve() {
  ++all_.waiting_misses_;
  const engine::alone turn{all_};
  --all_.waiting_misses_;
  std::optional<out_of_memory> refused;
  all_.empty_caches(user_);
  for (;;) {
    // Others may have given memory back, or brought more, while this one waited for its turn.
    if (const auto found = take_own(rung::own)) return found;
    for (stream_ledger* const each : ledgers_) all_.empty_caches(*each);
    if (const auto found = take_followed()) return found;
    make_marks();
    end_old_addresses();
    if (gather_passed()) {
      if (const auto found = take_own(waited_ ? rung::waited : rung::opportunistic)) return found;
    }
    if (const auto found = take_run()) return found;
    try {
      if (const auto found = grow()) return found;
    } catch (const out_of_memory& error) {
      refused.emplace(error);
    }
    // Others may give memory back for ever: what it costs to wait for that, nobody could tell.
    if (waited_) break;
    wait_for_streams();
    waited_ = true;
  }
  if (refused) throw out_of_memory{*refused};
  return std::nullopt;
}

std::optional<std::size_t> errand::take_own(rung counted) {
  const books_lock lock{all_.books_};
  all_.space_.prepare_for(2);
  block* const found = all_.best_fit_for(user_, bytes_, alignment_);
  if (found == nullptr) return std::nullopt;
  const std::size_t at = all_.aligned(found->offset, alignment_);
  return hand_out(all_.take(*found, at, bytes_), at + bytes_, counted);
}

std::optional<std::size_t> errand::take_run() {
  for (;;) {
    blocks claimed;
    std::size_t at = 0;
    {
      const books_lock lock{all_.books_};
      place found = one_free_block();
      if (found.first == nullptr) found = look_around().free_run;
      if (found.first == nullptr) return std::nullopt;
      at = found.at;
      claim(*found.first, at, at + bytes_, claimed);
    }
    bool is_ordered = false;
    bool waits = false;
    try {
      {
        const books_lock lock{all_.books_};
        waits = !std::all_of(claimed.begin(), claimed.end(),
                             [this](const block* one) { return is_in_order(*one); });
      }
      is_ordered = order_behind(claimed);
    } catch (...) {
      const books_lock lock{all_.books_};
      unclaim(claimed);
      throw;
    }
    const books_lock lock{all_.books_};
    if (is_ordered)
      return hand_out(*claimed.front(), at + bytes_, waits ? rung::internal : rung::followed);
    unclaim(claimed);
  }
}

place errand::one_free_block() const {
  place best;
  for (stream_ledger* const each : ledgers_) {
    block* const one = all_.best_fit(*each, bytes_, alignment_);
    if (one == nullptr || !is_usable(*one)) continue;
    if (best.first == nullptr || one->bytes < best.first->bytes) best.first = one;
  }
  if (best.first != nullptr) best.at = all_.aligned(best.first->offset, alignment_);
  return best;
}

std::optional<std::size_t> errand::take_followed() {
  // Newer blocks may be as small as older ones, which alone are followed.
  constexpr int patience = 16;
  const books_lock lock{all_.books_};
  // What becomes a thread's own without having passed would need a mark that others cannot make.
  if (!all_.rules_.follow_event_dependencies || user_.thread() != 0) return std::nullopt;
  all_.space_.prepare_for(2);
  block* best = nullptr;
  for (stream_ledger* const other : ledgers_) {
    if (other == &user_ || other->is_idle() || !user_.follows(*other, 1)) continue;
    free_tree& tree = other->free();
    auto at = tree.lower_bound(fit_key{bytes_, 0});
    for (int looked = 0; at != tree.end() && looked < patience; ++at, ++looked) {
      if (best != nullptr && at->bytes >= best->bytes) break;
      if (!user_.follows(*other, at->stamp)) continue;
      if (all_.aligned(at->offset, alignment_) + bytes_ > at->end()) continue;
      best = &*at;
      break;
    }
  }
  if (best == nullptr) return std::nullopt;
  const std::size_t at = all_.aligned(best->offset, alignment_);
  return hand_out(all_.take(*best, at, bytes_), at + bytes_, rung::followed);
}

bool errand::gather_passed() {
  const books_lock lock{all_.books_};
  if (!all_.rules_.opportunistic && !waited_) return false;
  blocks taken;
  for (stream_ledger* const each : ledgers_) {
    if (each->is_idle() || !each->has_news()) continue;
    for (block& one : each->free()) {
      if (each->has_passed(one.stamp)) taken.push_back(&one);
    }
    each->note_gathered();
  }
  pass_on(taken, all_.idle(), 0);
  return !taken.empty();
}

void errand::pass_on(const blocks& taken, stream_ledger& to, std::uint64_t stamp) noexcept {
  for (block* const one : taken) all_.take_whole(*one);
  for (block* const one : taken) {
    one->owner = &to;
    one->stamp = stamp;
  }
  // Joining makes blocks vanish that come later here, but never one that is still busy.
  for (block* const one : taken) {
    if (one->state == block_state::busy) all_.make_free(*one);
  }
}

void errand::make_marks() {
  // More of them tell more exactly how far a stream has come; each costs an event.
  constexpr std::size_t most_marks = 16;
  for (stream_ledger* const each : ledgers_) {
    std::uint64_t newest = 0;
    {
      const books_lock lock{all_.books_};
      if (!each->lacks_mark()) continue;
      newest = each->now();
    }
    if (each->marks().size() < most_marks) static_cast<void>(mark_for(*each, newest));
  }
}

void errand::look_at_marks() {
  for (stream_ledger* const each : ledgers_) all_.look_at_marks(*each);
  all_.vacate_forgotten();
}

template <typename Predicate>
void errand::end_aliases(Predicate is_over) {
  all_.aliases_.remove_if([&](const engine::old_address& one) {
    {
      const books_lock lock{all_.books_};
      if (!is_over(one)) return false;
    }
    if (!all_.memory_.end_alias(one.addresses->offset, one.addresses->bytes)) return false;
    const books_lock lock{all_.books_};
    all_.make_unmapped(*one.addresses);
    return true;
  });
}

void errand::end_old_addresses() {
  look_at_marks();
  end_aliases([](const engine::old_address& one) { return one.owner->has_passed(one.stamp); });
}

void errand::lift(const idle_chunk& chunk) {
  // Nothing uses it by an old address either, known to have passed or not: what does comes before
  // what was seen to pass at the present one.
  end_aliases([&chunk](const engine::old_address& one) { return one.order == chunk.order; });
  all_.memory_.lift(chunk.offset, chunk.bytes);
}

std::optional<stream_ledger::marked> errand::mark_for(stream_ledger& whose, std::uint64_t stamp) {
  auto& marks = whose.marks();
  const auto vouches = std::find_if(marks.begin(), marks.end(),
                                    [stamp](const auto& one) { return one.stamp >= stamp; });
  if (vouches != marks.end()) return *vouches;
  std::uint64_t ended = 0;
  bool is_gone = false;
  {
    const books_lock lock{all_.books_};
    ended = whose.end_stamp();
    is_gone = whose.is_forgotten();
  }
  // The name of one that is gone may be another stream's by now.
  const auto mark = is_gone ? nullptr : all_.order_.mark(whose.stream());
  if (mark == nullptr) {
    captured_.push_back(&whose);
    return std::nullopt;
  }
  marks.push_back({mark, ended});
  return marks.back();
}

bool errand::wait_for(const blocks& taken) {
  for (const block* const one : taken) {
    stream_ledger& owner = *one->owner;
    {
      const books_lock lock{all_.books_};
      if (owner.has_passed(one->stamp)) continue;
    }
    const auto known = mark_for(owner, one->stamp);
    if (!known) return false;
    known->mark->synchronize();
    const books_lock lock{all_.books_};
    owner.note_passed(known->stamp);
  }
  return true;
}

bool errand::order_behind(const blocks& taken) {
  if (user_.is_idle()) return wait_for(taken);
  for (const block* const one : taken) {
    stream_ledger& owner = *one->owner;
    {
      const books_lock lock{all_.books_};
      if (is_in_order(*one)) continue;
    }
    const auto known = mark_for(owner, one->stamp);
    if (!known) return false;
    if (!known->mark->hold_back(user_.stream())) {
      captured_.push_back(&user_);
      return false;
    }
    const books_lock lock{all_.books_};
    user_.note_follows(owner, known->stamp);
  }
  return true;
}

void errand::wait_for_streams() {
  for (stream_ledger* const each : ledgers_) {
    std::uint64_t newest = 0;
    bool is_gone = false;
    {
      const books_lock lock{all_.books_};
      newest = each->newest();
      if (each->has_passed(newest)) continue;
      is_gone = each->is_forgotten();
    }
    const auto known = mark_for(*each, newest);
    if (known) {
      known->mark->synchronize();
    } else if (is_gone) {
      all_.order_.synchronize();
    } else {
      continue;
    }
    const books_lock lock{all_.books_};
    each->note_passed(known ? known->stamp : newest);
  }
}

}  // namespace hipvmm::mr::pool
