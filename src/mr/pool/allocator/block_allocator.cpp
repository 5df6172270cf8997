// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block_allocator.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <thread>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "core/observers/profiler_range.hpp"
#include "mr/pool/allocator/slow_path.hpp"

namespace hipvmm::mr::pool {
namespace {

stream_state& state_at(const detail::stream_point& point) noexcept {
  return *static_cast<stream_state*>(point.stream);
}

}  // namespace

std::optional<std::size_t> block_allocator::allocate(stream_state& user, const request& wanted) {
  {
    const state_lock lock{blocks_.mutex};
    if (const auto taken = blocks_.take_own(user, wanted, pool_source::own_stream)) return taken;
  }
  return slow_path{blocks_, backing_, user, wanted}.serve();
}

bool block_allocator::deallocate(stream_state& user, std::size_t offset,
                                 std::size_t bytes) noexcept {
  if (!remove_small_block(offset, bytes)) return false;
  const state_lock lock{blocks_.mutex};
  return blocks_.free_used(user, offset, bytes);
}

bool block_allocator::deallocate_and_record(stream_state& user, std::size_t offset,
                                            std::size_t bytes) {
  if (user.may_vanish()) {
    if (!blocks_.streams.renew_fence(user)) throw std::invalid_argument{captured_stream};
    if (!remove_small_block(offset, bytes)) return false;
    const state_lock lock{blocks_.mutex};
    return blocks_.free_used(user, offset, bytes, true);
  }
  const backing_turn turn{backing_.turns};
  // First, because memory without a fence must not become free.
  const std::shared_ptr<const fence> recorded = blocks_.streams.source().fence_for(user.stream());
  if (recorded == nullptr) throw std::invalid_argument{captured_stream};
  // The free below has this epoch, because no other thread frees in this stream.
  const std::uint64_t epoch = blocks_.with_lock([&] { return user.epoch(); });
  // A failure up to here changes nothing.
  blocks_.streams.add_fence(user, recorded, epoch);
  const bool is_known = remove_small_block(offset, bytes);
  const state_lock lock{blocks_.mutex};
  const bool taken = is_known && blocks_.free_used(user, offset, bytes);
  user.advance_epoch();
  return taken;
}

std::optional<block_allocator::allocation> block_allocator::find(std::size_t offset) {
  if (blocks_.small_blocks.is_in_cache(offset)) return std::nullopt;
  const state_lock lock{blocks_.mutex};
  const block* const found = blocks_.index.find(offset);
  if (found == nullptr) return std::nullopt;
  stream_state* user = &owner_of(*found);
  if (!user->is_of_this_stream(found->epoch)) user = nullptr;
  // A cache may have given it to another stream since.
  if (blocks_.small_blocks.is_small_block(offset))
    user = blocks_.streams.with_id(blocks_.small_blocks.user_of(offset));
  const bool is_known = user != nullptr && user->is_in_use() &&
                        (user->thread() == 0 || user->thread() == this_thread_number());
  return allocation{found->bytes, is_known ? user : nullptr};
}

void block_allocator::add_dependency(stream_state& waiter, stream_state& other) {
  // Memory in caches was freed before this call too, but has no epoch yet.
  blocks_.empty_caches(other);
  const state_lock lock{blocks_.mutex};
  // Dependencies of `other` are not copied, because they may be newer than the event.
  waiter.add_dependency(other, other.advance_epoch());
}

detail::stream_point block_allocator::current_epoch(stream_ref stream, bool with_caches) {
  stream_state* const from = blocks_.streams.find(stream);
  if (from == nullptr) return {};
  if (with_caches) blocks_.empty_caches(*from);
  const state_lock lock{blocks_.mutex};
  if (from->has_passed(from->newest())) return {};
  // No epoch ends if nothing was freed in it.
  return {from, from->newest() < from->epoch() ? from->epoch() - 1 : from->advance_epoch()};
}

void block_allocator::add_dependency(stream_ref waiter, const detail::stream_point& reached) {
  stream_state& behind = state_of(waiter);
  const state_lock lock{blocks_.mutex};
  if (&behind != reached.stream) behind.add_dependency(state_at(reached), reached.count);
}

void block_allocator::note_passed(const detail::stream_point& reached) {
  const state_lock lock{blocks_.mutex};
  state_at(reached).note_passed(reached.count);
}

void block_allocator::end_state(stream_state& left, std::shared_ptr<const fence> recorded) {
  blocks_.streams.forget(left, std::move(recorded));
  // Afterwards, because until then other threads find the state.
  serial_.store(next_serial(), std::memory_order_release);
}

void block_allocator::forget(stream_ref stream, bool is_ending) {
  if (blocks_.streams.find(stream) == nullptr) return;
  backing_turn turn{backing_.turns};
  stream_state* const left = blocks_.streams.find(stream);
  if (left == nullptr) return;
  blocks_.empty_caches(*left);
  const bool lacks_fence = blocks_.with_lock([&] { return left->lacks_fence(); });
  std::shared_ptr<const fence> recorded;
  if (lacks_fence) recorded = blocks_.streams.make_fence(*left, left);
  if (lacks_fence && recorded == nullptr)
    throw std::invalid_argument{
        "forget_stream: the stream is being captured into a graph; end the capture before"};
  end_state(*left, std::move(recorded));
  maintenance at_work{blocks_, backing_, turn};
  at_work.poll_fences({left});
  // ~stream has waited if events need their stream, so the fences stay.
  if (is_ending) return;
  blocks_.streams.end_fences(*left);
  at_work.record_forgotten({left});
}

void block_allocator::forget_ended(stream_ref stream) {
  try {
    forget(stream, true);
  } catch (...) {
    // Another stream may get the handle, and must not find this state.
    const backing_turn turn{backing_.turns};
    if (stream_state* const left = blocks_.streams.find(stream)) {
      blocks_.streams.source().note_unknown_user();
      end_state(*left, nullptr);
      blocks_.streams.end_fences(*left);
    }
    throw;
  }
}

std::size_t block_allocator::trim(std::size_t bytes_to_keep,
                                  std::chrono::steady_clock::time_point deadline,
                                  chunk_gift* gift) {
  const detail::profiler_range range{"hipvmm pool: trim"};
  using namespace std::chrono_literals;
  // Memory that others create meanwhile does not count, or this might not end.
  const std::size_t held_first = physical_bytes();
  const std::size_t most = held_first - std::min(held_first, bytes_to_keep);
  std::size_t returned = 0;
  for (auto pause = 20us;; pause = std::min(2 * pause, 1000us)) {
    // Requests go first, up to a bound.
    for (int i = 0; i < 1000 && backing_.turns.waiting.load(std::memory_order_relaxed) != 0; ++i)
      std::this_thread::yield();
    maintenance::trimmed some{};
    bool do_others_unmap = false;
    {
      backing_turn turn{backing_.turns};
      if (is_asleep()) break;
      const std::size_t held = physical_bytes();
      const std::size_t least = held - std::min(held, most - std::min(most, returned));
      some = maintenance{blocks_, backing_, turn}.trim(std::max(bytes_to_keep, least), gift);
      // Memory that the background worker is unmapping is not the device's yet.
      do_others_unmap = turn.do_others_unmap();
    }
    returned += some.bytes;
    if (!do_others_unmap && (!some.may_go_on || returned >= most)) break;
    if (some.bytes != 0) {
      pause = 10us;
    } else {
      if (std::chrono::steady_clock::now() + pause > deadline) break;
      std::this_thread::sleep_for(pause);
    }
  }
  return restore_kept(bytes_to_keep, returned);
}

std::size_t block_allocator::restore_kept(std::size_t bytes_to_keep, std::size_t returned) {
  if (returned == 0 || bytes_to_keep == 0 || backing_.memory.traits.returns_memory) return returned;
  const std::size_t held = physical_bytes();
  if (held >= bytes_to_keep) return returned;
  const std::size_t used = counters().used_current;  // others took it meanwhile
  detail::report_exceptions(
      [&] { reserve((bytes_to_keep - std::min(used, bytes_to_keep)) / unit * unit); });
  const std::size_t now = physical_bytes();
  return returned - std::min(returned, now - std::min(now, held));
}

maintenance::trimmed block_allocator::trim_some(std::size_t bytes_to_keep) {
  if (backing_.turns.waiting.load(std::memory_order_relaxed) != 0) return {0, true};
  maintenance::trimmed some{};
  {
    backing_turn turn{backing_.turns};
    if (is_asleep()) return {0, false};
    some = maintenance{blocks_, backing_, turn}.trim(bytes_to_keep);
  }
  some.bytes = restore_kept(bytes_to_keep, some.bytes);
  return some;
}

void block_allocator::unmap_old_addresses() {
  backing_turn turn{backing_.turns};
  if (is_asleep()) return;
  maintenance at_work{blocks_, backing_, turn};
  at_work.poll_fences(blocks_.streams.all());
  static_cast<void>(at_work.unmap_old_addresses());
}

void block_allocator::drain() {
  const detail::profiler_range range{"hipvmm pool: drain"};
  empty_all_caches();
  backing_turn turn{backing_.turns};
  maintenance{blocks_, backing_, turn}.wait_for_streams(blocks_.streams.all());
}

void block_allocator::record_fences() {
  empty_all_caches();
  const backing_turn turn{backing_.turns};
  blocks_.streams.record_missing_fences(blocks_.streams.all(), nullptr);
}

void block_allocator::reserve(std::size_t bytes) {
  if (bytes == 0) return;
  const pool_statistics before = counters();
  // The pool keeps the chunks of a block that is allocated and freed.
  const std::optional<std::size_t> at = allocate(idle(), {bytes, unit});
  if (!at) return;
  deallocate(idle(), *at, bytes);
  // Not counted, because no caller requested it.
  constexpr auto source = static_cast<std::size_t>(pool_source::new_chunks);
  const state_lock lock{blocks_.mutex};
  if (blocks_.served[source] > before.served[source]) --blocks_.served[source];
  blocks_.index.lower_used_high(before.used_high, bytes);
}

void block_allocator::begin_sleep(const std::string& refusal) noexcept {
  // Caches keep nothing, because nothing refuses a request that a cache serves.
  ++blocks_.waiting_requests;
  const state_lock lock{blocks_.mutex};
  blocks_.refusal = &refusal;
}

void block_allocator::wake() noexcept {
  {
    const backing_turn turn{backing_.turns};  // a trim that began before may replace addresses
    const state_lock lock{blocks_.mutex};
    blocks_.refusal = nullptr;
  }
  --blocks_.waiting_requests;
}

void block_allocator::release_idle(const char* function, bool may_wait) {
  if (may_wait)
    drain();
  else
    empty_all_caches();
  // Blocks in transit reach the index soon.
  while (blocks_.blocks_in_transit.load() != 0) std::this_thread::yield();
  backing_turn turn{backing_.turns};
  // The other request may wait for this thread's request, so the wait below might not end.
  if (!may_wait && turn.do_others_wait())
    throw std::invalid_argument{std::string{function} + ": a request of " + name_of_pool(base()) +
                                " waits for memory: it can be evicted when that has ended"};
  // The background worker may be unmapping; it begins nothing more.
  turn.wait_for_others();
  maintenance at_work{blocks_, backing_, turn};
  while (at_work.trim(0).bytes != 0) continue;
  if (backing_.old_mappings.empty() && backing_.refused.empty()) return;
  std::size_t bytes = 0;
  {
    const state_lock lock{blocks_.mutex};
    for (const auto& each : backing_.old_mappings) bytes += each.addresses->bytes;
    for (const auto& each : backing_.refused) bytes += each.addresses->bytes;
  }
  throw std::invalid_argument{
      function + (": " + format_bytes(bytes)) + " of " + name_of_pool(base()) +
      " are still mapped at addresses that their chunks have left, which work of a capture may use "
      "or HIP refused to unmap: try again when captures have ended"};
}

}  // namespace hipvmm::mr::pool
