// SPDX-License-Identifier: MIT
#include "mr/pool/slow_path.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>

namespace hipvmm::mr::pool {

slow_path::slow_path(block_allocator& all, stream_state& user, std::size_t bytes,
                     std::size_t alignment)
    : all_{all}, user_{user}, bytes_{bytes}, alignment_{alignment} {
  const state_lock lock{all_.state_mutex_};
  for (stream_state& each : all_.states_) {
    if (!each.is_vacant()) states_.push_back(&each);
  }
}

std::optional<std::size_t> slow_path::serve() {
  ++all_.waiting_slow_paths_;
  const block_allocator::slow_path_turn turn{all_};
  --all_.waiting_slow_paths_;
  std::optional<out_of_memory> refused;
  all_.empty_caches(user_);
  for (;;) {
    // Others may have given memory back, or brought more, while this one waited for its turn.
    if (const auto found = take_own(pool_source::own_stream)) return found;
    for (stream_state* const each : states_) all_.empty_caches(*each);
    if (const auto found = take_followed()) return found;
    record_fences();
    unmap_old_addresses();
    if (collect_reusable()) {
      if (const auto found = take_own(waited_ ? pool_source::waited : pool_source::opportunistic))
        return found;
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

std::optional<std::size_t> slow_path::take_own(pool_source counted) {
  const state_lock lock{all_.state_mutex_};
  all_.space_.prepare_for(2);
  block* const found = all_.best_fit_for(user_, bytes_, alignment_);
  if (found == nullptr) return std::nullopt;
  const std::size_t at = all_.aligned(found->offset, alignment_);
  return make_used_by_user(all_.take(*found, at, bytes_), at + bytes_, counted);
}

std::optional<std::size_t> slow_path::take_run() {
  for (;;) {
    blocks claimed;
    std::size_t at = 0;
    {
      const state_lock lock{all_.state_mutex_};
      place found = one_free_block();
      if (found.first == nullptr) found = scan_all().free_run;
      if (found.first == nullptr) return std::nullopt;
      at = found.at;
      claim(*found.first, at, at + bytes_, claimed);
    }
    bool is_ordered = false;
    bool waits = false;
    try {
      {
        const state_lock lock{all_.state_mutex_};
        waits = !std::all_of(claimed.begin(), claimed.end(),
                             [this](const block* one) { return is_in_order(*one); });
      }
      is_ordered = make_user_wait(claimed);
    } catch (...) {
      const state_lock lock{all_.state_mutex_};
      unclaim(claimed);
      throw;
    }
    const state_lock lock{all_.state_mutex_};
    if (is_ordered)
      return make_used_by_user(
          *claimed.front(), at + bytes_,
          waits ? pool_source::internal_dependency : pool_source::followed_stream);
    unclaim(claimed);
  }
}

place slow_path::one_free_block() const {
  place best;
  for (stream_state* const each : states_) {
    block* const one = all_.best_fit(*each, bytes_, alignment_);
    if (one == nullptr || !is_usable(*one)) continue;
    if (best.first == nullptr || one->bytes < best.first->bytes) best.first = one;
  }
  if (best.first != nullptr) best.at = all_.aligned(best.first->offset, alignment_);
  return best;
}

std::optional<std::size_t> slow_path::take_followed() {
  // Newer blocks may be as small as older ones, which alone are followed.
  constexpr int patience = 16;
  const state_lock lock{all_.state_mutex_};
  // What becomes a thread's own without having passed would need a mark that others cannot make.
  if (!all_.reuse_.follow_event_dependencies || user_.thread() != 0) return std::nullopt;
  all_.space_.prepare_for(2);
  block* best = nullptr;
  for (stream_state* const other : states_) {
    if (other == &user_ || other->is_idle() || !user_.follows(*other, 1)) continue;
    free_tree& tree = other->free();
    auto at = tree.lower_bound(fit_key{bytes_, 0});
    for (int looked = 0; at != tree.end() && looked < patience; ++at, ++looked) {
      if (best != nullptr && at->bytes >= best->bytes) break;
      if (!user_.follows(*other, at->epoch)) continue;
      if (all_.aligned(at->offset, alignment_) + bytes_ > at->end()) continue;
      best = &*at;
      break;
    }
  }
  if (best == nullptr) return std::nullopt;
  const std::size_t at = all_.aligned(best->offset, alignment_);
  return make_used_by_user(all_.take(*best, at, bytes_), at + bytes_, pool_source::followed_stream);
}

bool slow_path::collect_reusable() {
  const state_lock lock{all_.state_mutex_};
  if (!all_.reuse_.allow_opportunistic && !waited_) return false;
  blocks taken;
  for (stream_state* const each : states_) {
    if (each->is_idle() || !each->has_news()) continue;
    for (block& one : each->free()) {
      if (each->has_passed(one.epoch)) taken.push_back(&one);
    }
    each->note_collected();
  }
  pass_on(taken, all_.idle(), 0);
  return !taken.empty();
}

void slow_path::pass_on(const blocks& taken, stream_state& to, std::uint64_t epoch) noexcept {
  for (block* const one : taken) all_.take_whole(*one);
  for (block* const one : taken) {
    one->owner = &to;
    one->epoch = epoch;
  }
  // Joining makes blocks vanish that come later here, but never one that is still busy.
  for (block* const one : taken) {
    if (one->state == block_state::busy) all_.make_free(*one);
  }
}

void slow_path::record_fences() {
  // More of them tell more exactly how far a stream has come; each costs an event.
  constexpr std::size_t most_fences = 16;
  for (stream_state* const each : states_) {
    std::uint64_t newest = 0;
    {
      const state_lock lock{all_.state_mutex_};
      if (!each->lacks_fence()) continue;
      newest = each->now();
    }
    if (each->fences().size() < most_fences) static_cast<void>(fence_for(*each, newest));
  }
}

void slow_path::poll_fences() {
  for (stream_state* const each : states_) all_.poll_fences(*each);
  all_.recycle_forgotten();
}

template <typename Predicate>
void slow_path::end_aliases(Predicate is_over) {
  all_.aliases_.remove_if([&](const block_allocator::old_address& one) {
    {
      const state_lock lock{all_.state_mutex_};
      if (!is_over(one)) return false;
    }
    if (!all_.memory_.end_alias(one.addresses->offset, one.addresses->bytes)) return false;
    const state_lock lock{all_.state_mutex_};
    all_.make_unmapped(*one.addresses);
    return true;
  });
}

void slow_path::unmap_old_addresses() {
  poll_fences();
  end_aliases(
      [](const block_allocator::old_address& one) { return one.owner->has_passed(one.epoch); });
}

void slow_path::lift(const idle_chunk& chunk) {
  // Nothing uses it by an old address either, known to have passed or not: what does comes before
  // what was seen to pass at the present one.
  end_aliases(
      [&chunk](const block_allocator::old_address& one) { return one.order == chunk.order; });
  all_.memory_.lift(chunk.offset, chunk.bytes);
}

std::optional<stream_state::recorded_fence> slow_path::fence_for(stream_state& whose,
                                                                 std::uint64_t epoch) {
  auto& fences = whose.fences();
  const auto covers = std::find_if(fences.begin(), fences.end(),
                                    [epoch](const auto& one) { return one.epoch >= epoch; });
  if (covers != fences.end()) return *covers;
  std::uint64_t ended = 0;
  bool is_gone = false;
  {
    const state_lock lock{all_.state_mutex_};
    ended = whose.advance_epoch();
    is_gone = whose.is_forgotten();
  }
  // The name of one that is gone may be another stream's by now.
  const auto mark = is_gone ? nullptr : all_.order_.fence_for(whose.stream());
  if (mark == nullptr) {
    captured_.push_back(&whose);
    return std::nullopt;
  }
  fences.push_back({mark, ended});
  return fences.back();
}

bool slow_path::wait_for(const blocks& taken) {
  for (const block* const one : taken) {
    stream_state& owner = *one->owner;
    {
      const state_lock lock{all_.state_mutex_};
      if (owner.has_passed(one->epoch)) continue;
    }
    const auto known = fence_for(owner, one->epoch);
    if (!known) return false;
    known->mark->synchronize();
    const state_lock lock{all_.state_mutex_};
    owner.note_passed(known->epoch);
  }
  return true;
}

bool slow_path::make_user_wait(const blocks& taken) {
  if (user_.is_idle()) return wait_for(taken);
  for (const block* const one : taken) {
    stream_state& owner = *one->owner;
    {
      const state_lock lock{all_.state_mutex_};
      if (is_in_order(*one)) continue;
    }
    const auto known = fence_for(owner, one->epoch);
    if (!known) return false;
    if (!known->mark->make_stream_wait(user_.stream())) {
      captured_.push_back(&user_);
      return false;
    }
    const state_lock lock{all_.state_mutex_};
    user_.add_dependency(owner, known->epoch);
  }
  return true;
}

void slow_path::wait_for_streams() {
  for (stream_state* const each : states_) {
    std::uint64_t newest = 0;
    bool is_gone = false;
    {
      const state_lock lock{all_.state_mutex_};
      newest = each->newest();
      if (each->has_passed(newest)) continue;
      is_gone = each->is_forgotten();
    }
    const auto known = fence_for(*each, newest);
    if (known) {
      known->mark->synchronize();
    } else if (is_gone) {
      all_.order_.synchronize();
    } else {
      continue;
    }
    const state_lock lock{all_.state_mutex_};
    each->note_passed(known ? known->epoch : newest);
  }
}

}  // namespace hipvmm::mr::pool
