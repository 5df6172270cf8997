// SPDX-License-Identifier: MIT
#include "mr/pool/engine.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include "mr/pool/errand.hpp"

namespace hipvmm::mr::pool {

namespace {

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::uint64_t this_thread() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

/// What a thread used last.
struct remembered {
  std::uint64_t serial = 0;
  ihipStream_t* stream = nullptr;
  engine::small_user user{};
};
thread_local constinit remembered last;

}  // namespace

engine::engine(physical_side& memory, stream_side& order, std::uintptr_t base)
    : memory_{memory},
      order_{order},
      base_{base},
      serial_{next_serial()},
      pieces_{memory.address_bytes()},
      space_{memory.address_bytes()} {
  ledgers_.emplace_back(stream_ref::legacy_default(), 0);
}

stream_ledger& engine::ledger_of(stream_ref stream) { return *small_user_of(stream).ledger; }

engine::small_user engine::small_user_of(stream_ref stream) {
  const std::uint64_t serial = serial_.load(std::memory_order_acquire);
  if (last.serial != serial || last.stream != stream.get()) {
    stream_ledger& ledger = find_ledger(stream, 0);
    last = {serial, stream.get(), {&ledger, &ledger.cache_of(this_thread())}};
  }
  return last.user;
}

stream_ledger& engine::ledger_of_thread(stream_ref stream) {
  return find_ledger(stream, this_thread());
}

stream_ledger& engine::find_ledger(stream_ref stream, std::uint64_t thread) {
  const books_lock lock{books_};
  stream_ledger* vacant = nullptr;
  for (stream_ledger& each : ledgers_) {
    if (each.is_vacant()) vacant = &each;
    if (!each.is_idle() && each.is_in_use() && each.stream() == stream && each.thread() == thread)
      return each;
  }
  if (vacant != nullptr) {
    vacant->begin_anew(stream, thread);
    return *vacant;
  }
  if (ledgers_.size() == piece_map::nobody)
    throw std::length_error{"a pool serves " + std::to_string(piece_map::nobody) +
                            " streams at most: forget those that are gone"};
  return ledgers_.emplace_back(stream, ledgers_.size(), thread);
}

block* engine::best_fit(stream_ledger& from, std::size_t bytes,
                        std::size_t alignment) const noexcept {
  // Where hardly any block has the alignment, one that is large enough anyway is as good.
  constexpr int patience = 16;
  free_tree& tree = from.free();
  const auto fits = [&](const block& one) {
    return aligned(one.offset, alignment) + bytes <= one.end();
  };
  auto at = tree.lower_bound(fit_key{bytes, 0});
  for (int looked = 0; at != tree.end() && looked < patience; ++at, ++looked) {
    if (fits(*at)) return &*at;
  }
  if (at != tree.end()) at = tree.lower_bound(fit_key{bytes + alignment - unit, 0});
  return at == tree.end() ? nullptr : &*at;
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

void engine::make_used(block& taken, stream_ledger& user) noexcept {
  taken.state = block_state::used;
  taken.owner = &user;
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
      make_used(taken, user);
      ++counters_.served[static_cast<std::size_t>(rung::own)];
      return taken.offset;
    }
  }
  return errand{*this, user, bytes, alignment}.serve();
}

bool engine::take_back(stream_ledger& user, std::size_t offset, std::size_t bytes) noexcept {
  block* const given = space_.find(offset);
  if (given == nullptr || given->bytes != bytes) return false;
  space_.strike(*given);
  counters_.used_bytes -= bytes;
  given->owner = &user;
  given->stamp = user.stamp();
  make_free(*given);
  return true;
}

bool engine::deallocate(stream_ledger& user, std::size_t offset, std::size_t bytes) noexcept {
  if (!end_piece(offset, bytes)) return false;
  const books_lock lock{books_};
  return take_back(user, offset, bytes);
}

bool engine::deallocate_and_mark(stream_ledger& user, std::size_t offset, std::size_t bytes) {
  const std::lock_guard alone{misses_};
  // Before the memory is anybody's: without a mark it must not become free.
  const std::shared_ptr<const stream_mark> mark = order_.mark(user.stream());
  if (!end_piece(offset, bytes)) return false;
  const books_lock lock{books_};
  // The stamp that the memory will carry.
  user.marks().push_back({mark, user.now()});
  const bool taken = take_back(user, offset, bytes);
  user.end_stamp();
  return taken;
}

std::optional<engine::allocation> engine::find(std::size_t offset) {
  if (pieces_.is_in_cache(offset)) return std::nullopt;
  const books_lock lock{books_};
  const block* const found = space_.find(offset);
  if (found == nullptr) return std::nullopt;
  stream_ledger* user = found->owner;
  // A cache has passed it on since.
  if (pieces_.is_piece(offset)) {
    const std::size_t index = pieces_.user_of(offset);
    user = index == piece_map::nobody ? nullptr : &ledgers_[index];
  }
  const bool can_be_told = user != nullptr && user->is_in_use() &&
                           (user->thread() == 0 || user->thread() == this_thread());
  return allocation{found->bytes, can_be_told ? user : nullptr};
}

void engine::forget(stream_ref stream) {
  const std::lock_guard alone{misses_};
  serial_.store(next_serial(), std::memory_order_release);
  stream_ledger* left = nullptr;
  {
    const books_lock lock{books_};
    for (stream_ledger& each : ledgers_) {
      if (!each.is_idle() && each.is_in_use() && each.stream() == stream &&
          (each.thread() == 0 || each.thread() == this_thread()))
        left = &each;
    }
  }
  if (left == nullptr) return;
  empty_caches(*left);
  bool lacks_mark = false;
  {
    const books_lock lock{books_};
    lacks_mark = left->lacks_mark();
  }
  const std::shared_ptr<const stream_mark> mark = lacks_mark ? order_.mark(stream) : nullptr;
  {
    const books_lock lock{books_};
    if (mark != nullptr) left->marks().push_back({mark, left->end_stamp()});
    left->forget();
  }
  vacate_forgotten();
}

void engine::look_at_marks(stream_ledger& of) {
  auto& marks = of.marks();
  while (!marks.empty() && marks.front().mark->is_done()) {
    const books_lock lock{books_};
    of.note_passed(marks.front().stamp);
    marks.pop_front();
  }
}

void engine::vacate_forgotten() {
  std::vector<stream_ledger*> forgotten;
  {
    const books_lock lock{books_};
    for (stream_ledger& each : ledgers_) {
      if (each.is_forgotten()) forgotten.push_back(&each);
    }
  }
  for (stream_ledger* const each : forgotten) {
    look_at_marks(*each);
    const bool has_aliases = std::any_of(aliases_.begin(), aliases_.end(),
                                         [&](const auto& one) { return one.owner == each; });
    const books_lock lock{books_};
    if (has_aliases || !each->has_passed(each->newest())) continue;
    while (!each->free().empty()) {
      block& one = *each->free().begin();
      take_whole(one);
      one.owner = &idle();
      one.stamp = 0;
      make_free(one);
    }
    // What callers still have was taken in a stream that is no more.
    for (block* at = &space_.front(); at != nullptr; at = at->next) {
      if (at->state != block_state::used) continue;
      if (at->owner == each) at->owner = nullptr;
      pieces_.disown(at->offset, each->index());
    }
    each->vacate();
  }
}

void engine::reserve(std::size_t bytes) {
  if (bytes == 0) return;
  // Taken and given back: what is backed stays.
  const std::optional<std::size_t> at = allocate(idle(), bytes, unit);
  if (at) deallocate(idle(), *at, bytes);
}

std::size_t engine::trim(std::size_t bytes_to_keep,
                         std::chrono::steady_clock::time_point deadline) {
  using namespace std::chrono_literals;
  std::size_t returned = 0;
  for (auto pause = 20us;; pause = std::min(2 * pause, 1000us)) {
    while (waiting_misses_.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
    const errand::trimmed some = errand{*this, idle(), 0, unit}.trim(bytes_to_keep);
    returned += some.bytes;
    if (!some.may_go_on) return returned;
    if (some.bytes != 0) {
      pause = 10us;
    } else {
      if (std::chrono::steady_clock::now() + pause > deadline) return returned;
      std::this_thread::sleep_for(pause);
    }
  }
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

void engine::reset_highs() {
  const books_lock lock{books_};
  counters_.physical_high = counters_.physical_bytes;
  counters_.used_high = counters_.used_bytes;
}

engine_counters engine::counters() {
  const books_lock lock{books_};
  return counters_;
}

}  // namespace hipvmm::mr::pool
