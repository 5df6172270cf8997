// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "mr/pool/engine.hpp"

// Whose ledger is whose, and what becomes of those whose stream or thread others cannot reach.
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
  engine::small_user user{};
};
constexpr unsigned remembered_bits = 3;
thread_local constinit std::array<remembered, 1 << remembered_bits> last_used;

remembered& place_for(std::uint64_t serial, const ihipStream_t* stream) noexcept {
  const std::uint64_t key = reinterpret_cast<std::uintptr_t>(stream) + serial;
  return last_used[key * 0x9E3779B97F4A7C15U >> (64 - remembered_bits)];
}

}  // namespace

std::uint64_t engine::next_serial() noexcept {
  static std::atomic<std::uint64_t> last_made{0};
  return ++last_made;
}

stream_ledger& engine::ledger_of(stream_ref stream) { return *small_user_of(stream).ledger; }

engine::small_user engine::small_user_of(stream_ref stream) {
  const std::uint64_t serial = serial_.load(std::memory_order_acquire);
  remembered& last = place_for(serial, stream.get());
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

bool engine::deallocate_and_mark(stream_ledger& user, std::size_t offset, std::size_t bytes) {
  const alone turn{*this};
  // Before the memory is anybody's: without a mark it must not become free.
  const std::shared_ptr<const stream_mark> mark = order_.mark(user.stream());
  if (mark == nullptr)
    throw std::invalid_argument{
        "the stream is being captured into a graph, which may run again and again: give the memory "
        "back when the last launch is submitted"};
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

stream_ledger* engine::present_ledger(stream_ref stream) {
  const books_lock lock{books_};
  for (stream_ledger& each : ledgers_) {
    if (!each.is_idle() && each.is_in_use() && each.stream() == stream &&
        (each.thread() == 0 || each.thread() == this_thread()))
      return &each;
  }
  return nullptr;
}

void engine::forget(stream_ref stream) {
  // Streams that have no ledger end without any lock of misses.
  if (present_ledger(stream) == nullptr) return;
  const alone turn{*this};
  serial_.store(next_serial(), std::memory_order_release);
  stream_ledger* const left = present_ledger(stream);
  if (left == nullptr) return;
  empty_caches(*left);
  bool lacks_mark = false;
  {
    const books_lock lock{books_};
    lacks_mark = left->lacks_mark();
  }
  const std::shared_ptr<const stream_mark> mark = lacks_mark ? order_.mark(stream) : nullptr;
  if (lacks_mark && mark == nullptr)
    throw std::invalid_argument{
        "forget_stream: the stream is being captured into a graph; end the capture before"};
  {
    const books_lock lock{books_};
    if (mark != nullptr) left->marks().push_back({mark, left->end_stamp()});
    left->forget();
  }
  vacate_forgotten();
}

void engine::forget_ended(stream_ref stream) {
  try {
    forget(stream);
  } catch (...) {
    // The next stream may have the handle, and must not find this ledger by it.
    const alone turn{*this};
    if (stream_ledger* const left = present_ledger(stream)) {
      const books_lock lock{books_};
      left->forget();
    }
    throw;
  }
}

void engine::look_at_marks(stream_ledger& of) {
  auto& marks = of.marks();
  while (!marks.empty() && marks.front().mark->is_done()) {
    // Ends behind the lock, for its event may.
    const stream_ledger::marked passed = std::move(marks.front());
    marks.pop_front();
    const books_lock lock{books_};
    of.note_passed(passed.stamp);
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

void engine::note_follows(stream_ledger& waiter, stream_ledger& other) {
  // What caches hold has no stamp yet, and was given back before as well.
  empty_caches(other);
  const books_lock lock{books_};
  waiter.inherit(other);
  waiter.note_follows(other, other.end_stamp());
}

engine::point engine::reach(stream_ref stream) {
  stream_ledger* const from = present_ledger(stream);
  if (from == nullptr) return {};
  // What caches hold has no stamp yet.
  empty_caches(*from);
  const books_lock lock{books_};
  if (from->has_passed(from->newest())) return {};
  // Nothing to end where the stamp that ended last is that of all there is.
  return {from, from->newest() < from->now() ? from->now() - 1 : from->end_stamp()};
}

void engine::note_follows(stream_ref waiter, const point& reached) {
  stream_ledger& behind =
      waiter == stream_ref::per_thread_default() ? ledger_of_thread(waiter) : ledger_of(waiter);
  const books_lock lock{books_};
  if (&behind != reached.ledger) behind.note_follows(*reached.ledger, reached.stamp);
}

void engine::note_passed(const point& reached) {
  const books_lock lock{books_};
  reached.ledger->note_passed(reached.stamp);
}

}  // namespace hipvmm::mr::pool
