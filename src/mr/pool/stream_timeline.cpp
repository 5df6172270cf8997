// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "mr/pool/block_allocator.hpp"

// Whose state is whose, and what becomes of those whose stream or thread others cannot reach.
namespace hipvmm::mr::pool {
namespace {

std::uint64_t this_thread() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

/// What a thread used last, of each of some streams and pools.
struct remembered {
  std::uint64_t serial = 0;
  ihipStream_t* stream = nullptr;
  block_allocator::small_user user{};
};
constexpr unsigned remembered_bits = 3;
thread_local constinit std::array<remembered, 1 << remembered_bits> last_used;

remembered& place_for(std::uint64_t serial, const ihipStream_t* stream) noexcept {
  const std::uint64_t key = reinterpret_cast<std::uintptr_t>(stream) + serial;
  return last_used[key * 0x9E3779B97F4A7C15U >> (64 - remembered_bits)];
}

}  // namespace

std::uint64_t block_allocator::next_serial() noexcept {
  static std::atomic<std::uint64_t> last_made{0};
  return ++last_made;
}

stream_state& block_allocator::state_of(stream_ref stream) { return *small_user_of(stream).state; }

block_allocator::small_user block_allocator::small_user_of(stream_ref stream) {
  const std::uint64_t serial = serial_.load(std::memory_order_acquire);
  remembered& last = place_for(serial, stream.get());
  if (last.serial != serial || last.stream != stream.get()) {
    stream_state& state = find_or_make_state(stream, 0);
    last = {serial, stream.get(), {&state, &state.cache_of(this_thread())}};
  }
  return last.user;
}

stream_state& block_allocator::state_of_thread(stream_ref stream) {
  return find_or_make_state(stream, this_thread());
}

stream_state& block_allocator::find_or_make_state(stream_ref stream, std::uint64_t thread) {
  const state_lock lock{state_mutex_};
  stream_state* vacant = nullptr;
  for (stream_state& each : states_) {
    if (each.is_vacant()) vacant = &each;
    if (!each.is_idle() && each.is_in_use() && each.stream() == stream && each.thread() == thread)
      return each;
  }
  if (vacant != nullptr) {
    vacant->begin_anew(stream, thread);
    return *vacant;
  }
  if (states_.size() == block_map::nobody)
    throw std::length_error{"a pool serves " + std::to_string(block_map::nobody) +
                            " streams at most: forget those that are gone"};
  return states_.emplace_back(stream, states_.size(), thread);
}

bool block_allocator::deallocate_and_record(stream_state& user, std::size_t offset,
                                            std::size_t bytes) {
  const slow_path_turn turn{*this};
  // Before the memory is anybody's: without a mark it must not become free.
  const std::shared_ptr<const fence> mark = order_.fence_for(user.stream());
  if (mark == nullptr)
    throw std::invalid_argument{
        "the stream is being captured into a graph, which may run again and again: give the memory "
        "back when the last launch is submitted"};
  if (!remove_small_block(offset, bytes)) return false;
  const state_lock lock{state_mutex_};
  // The epoch that the memory will carry.
  user.fences().push_back({mark, user.now()});
  const bool taken = take_back(user, offset, bytes);
  user.advance_epoch();
  return taken;
}

std::optional<block_allocator::allocation> block_allocator::find(std::size_t offset) {
  if (small_blocks_.is_in_cache(offset)) return std::nullopt;
  const state_lock lock{state_mutex_};
  const block* const found = space_.find(offset);
  if (found == nullptr) return std::nullopt;
  stream_state* user = found->owner;
  // A cache has passed it on since.
  if (small_blocks_.is_small_block(offset)) {
    const std::size_t index = small_blocks_.user_of(offset);
    user = index == block_map::nobody ? nullptr : &states_[index];
  }
  const bool can_be_told = user != nullptr && user->is_in_use() &&
                           (user->thread() == 0 || user->thread() == this_thread());
  return allocation{found->bytes, can_be_told ? user : nullptr};
}

stream_state* block_allocator::present_state(stream_ref stream) {
  const state_lock lock{state_mutex_};
  for (stream_state& each : states_) {
    if (!each.is_idle() && each.is_in_use() && each.stream() == stream &&
        (each.thread() == 0 || each.thread() == this_thread()))
      return &each;
  }
  return nullptr;
}

void block_allocator::forget(stream_ref stream) {
  // Streams that have no state end without any lock of misses.
  if (present_state(stream) == nullptr) return;
  const slow_path_turn turn{*this};
  serial_.store(next_serial(), std::memory_order_release);
  stream_state* const left = present_state(stream);
  if (left == nullptr) return;
  empty_caches(*left);
  bool lacks_fence = false;
  {
    const state_lock lock{state_mutex_};
    lacks_fence = left->lacks_fence();
  }
  const std::shared_ptr<const fence> mark = lacks_fence ? order_.fence_for(stream) : nullptr;
  if (lacks_fence && mark == nullptr)
    throw std::invalid_argument{
        "forget_stream: the stream is being captured into a graph; end the capture before"};
  {
    const state_lock lock{state_mutex_};
    if (mark != nullptr) left->fences().push_back({mark, left->advance_epoch()});
    left->forget();
  }
  recycle_forgotten();
}

void block_allocator::forget_ended(stream_ref stream) {
  try {
    forget(stream);
  } catch (...) {
    // The next stream may have the handle, and must not find this state by it.
    const slow_path_turn turn{*this};
    if (stream_state* const left = present_state(stream)) {
      const state_lock lock{state_mutex_};
      left->forget();
    }
    throw;
  }
}

void block_allocator::poll_fences(stream_state& of) {
  auto& fences = of.fences();
  while (!fences.empty() && fences.front().mark->is_done()) {
    // Ends behind the lock, for its event may.
    const stream_state::recorded_fence passed = std::move(fences.front());
    fences.pop_front();
    const state_lock lock{state_mutex_};
    of.note_passed(passed.epoch);
  }
}

void block_allocator::recycle_forgotten() {
  std::vector<stream_state*> forgotten;
  {
    const state_lock lock{state_mutex_};
    for (stream_state& each : states_) {
      if (each.is_forgotten()) forgotten.push_back(&each);
    }
  }
  for (stream_state* const each : forgotten) {
    poll_fences(*each);
    const bool has_aliases = std::any_of(aliases_.begin(), aliases_.end(),
                                         [&](const auto& one) { return one.owner == each; });
    const state_lock lock{state_mutex_};
    if (has_aliases || !each->has_passed(each->newest())) continue;
    while (!each->free().empty()) {
      block& one = *each->free().begin();
      take_whole(one);
      one.owner = &idle();
      one.epoch = 0;
      make_free(one);
    }
    // What callers still have was taken in a stream that is no more.
    for (block* at = &space_.front(); at != nullptr; at = at->next) {
      if (at->state != block_state::used) continue;
      if (at->owner == each) at->owner = nullptr;
      small_blocks_.disown(at->offset, each->index());
    }
    each->retire();
  }
}

void block_allocator::add_dependency(stream_state& waiter, stream_state& other) {
  // What caches hold has no epoch yet, and was given back before as well.
  empty_caches(other);
  const state_lock lock{state_mutex_};
  waiter.merge_dependencies(other);
  waiter.add_dependency(other, other.advance_epoch());
}

block_allocator::point block_allocator::reach(stream_ref stream) {
  stream_state* const from = present_state(stream);
  if (from == nullptr) return {};
  // What caches hold has no epoch yet.
  empty_caches(*from);
  const state_lock lock{state_mutex_};
  if (from->has_passed(from->newest())) return {};
  // Nothing to end where the epoch that ended last is that of all there is.
  return {from, from->newest() < from->now() ? from->now() - 1 : from->advance_epoch()};
}

void block_allocator::add_dependency(stream_ref waiter, const point& reached) {
  stream_state& behind =
      waiter == stream_ref::per_thread_default() ? state_of_thread(waiter) : state_of(waiter);
  const state_lock lock{state_mutex_};
  if (&behind != reached.state) behind.add_dependency(*reached.state, reached.epoch);
}

void block_allocator::note_passed(const point& reached) {
  const state_lock lock{state_mutex_};
  reached.state->note_passed(reached.epoch);
}

}  // namespace hipvmm::mr::pool
