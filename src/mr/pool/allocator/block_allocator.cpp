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
#include "mr/pool/allocator/thread_caches.hpp"

namespace hipvmm::mr::pool {

std::string block_allocator::name() const { return name_of(all_); }

std::optional<std::size_t> block_allocator::allocate(stream_state& user, const request& wanted) {
  {
    const state_lock lock{all_.state_mutex};
    if (const auto taken = take_free(user, wanted)) return taken;
  }
  return slow_path{all_, user, wanted}.serve();
}

std::optional<std::size_t> block_allocator::take_free(stream_state& user, const request& wanted) {
  all_.require_awake();
  all_.index.prepare_for(2);
  block* const found = all_.index.best_fit_or_idle(user, wanted.bytes, wanted.alignment);
  if (found == nullptr) return std::nullopt;
  const std::size_t at = all_.index.aligned(found->offset, wanted.alignment);
  block& taken = all_.index.make_used(all_.index.take(*found, at, wanted.bytes), at + wanted.bytes,
                                      user, user.epoch());
  all_.count_served(pool_source::own_stream);
  return taken.offset;
}

bool block_allocator::deallocate(stream_state& user, std::size_t offset,
                                 std::size_t bytes) noexcept {
  if (!remove_small_block(offset, bytes)) return false;
  const state_lock lock{all_.state_mutex};
  return free_used(all_, user, offset, bytes);
}

bool block_allocator::deallocate_and_record(stream_state& user, std::size_t offset,
                                            std::size_t bytes) {
  if (user.may_vanish()) {
    if (!all_.streams.renew_fence(user)) throw std::invalid_argument{captured_stream};
    if (!remove_small_block(offset, bytes)) return false;
    const state_lock lock{all_.state_mutex};
    return free_used(all_, user, offset, bytes, true);
  }
  const slow_path_turn turn{all_};
  // Before the memory is anybody's: without a fence it must not become free.
  const std::shared_ptr<const fence> recorded = all_.streams.source().fence_for(user.stream());
  if (recorded == nullptr) throw std::invalid_argument{captured_stream};
  // The epoch that the memory will carry: nobody else frees memory in this stream.
  std::uint64_t epoch = 0;
  {
    const state_lock lock{all_.state_mutex};
    epoch = user.epoch();
  }
  // Until here a failure changes nothing.
  all_.streams.add_fence(user, recorded, epoch);
  const bool is_known = remove_small_block(offset, bytes);
  const state_lock lock{all_.state_mutex};
  const bool taken = is_known && free_used(all_, user, offset, bytes);
  user.advance_epoch();
  return taken;
}

std::optional<block_allocator::allocation> block_allocator::find(std::size_t offset) {
  if (all_.small_blocks.is_in_cache(offset)) return std::nullopt;
  const state_lock lock{all_.state_mutex};
  const block* const found = all_.index.find(offset);
  if (found == nullptr) return std::nullopt;
  stream_state* user = &owner_of(*found);
  if (!user->is_of_this_stream(found->epoch)) user = nullptr;
  // A cache has passed it on since.
  if (all_.small_blocks.is_small_block(offset))
    user = all_.streams.with_id(all_.small_blocks.user_of(offset));
  const bool is_known = user != nullptr && user->is_in_use() &&
                        (user->thread() == 0 || user->thread() == this_thread_number());
  return allocation{found->bytes, is_known ? user : nullptr};
}

void block_allocator::add_dependency(stream_state& waiter, stream_state& other) {
  // What caches hold has no epoch yet, and was freed before as well.
  empty_caches(all_, other);
  const state_lock lock{all_.state_mutex};
  // What `other` has learned of third streams may be newer than the event that was waited for.
  waiter.add_dependency(other, other.advance_epoch());
}

block_allocator::stream_epoch block_allocator::current_epoch(stream_ref stream, bool with_caches) {
  stream_state* const from = all_.streams.find(stream);
  if (from == nullptr) return {};
  // What caches hold has no epoch yet.
  if (with_caches) empty_caches(all_, *from);
  const state_lock lock{all_.state_mutex};
  if (from->has_passed(from->newest())) return {};
  // Nothing to end where the epoch that ended last is that of all there is.
  return {from, from->newest() < from->epoch() ? from->epoch() - 1 : from->advance_epoch()};
}

void block_allocator::add_dependency(stream_ref waiter, const stream_epoch& reached) {
  stream_state& behind =
      waiter == stream_ref::per_thread_default() ? state_of_thread(waiter) : state_of(waiter);
  const state_lock lock{all_.state_mutex};
  if (&behind != reached.state) behind.add_dependency(*reached.state, reached.epoch);
}

void block_allocator::note_passed(const stream_epoch& reached) {
  const state_lock lock{all_.state_mutex};
  reached.state->note_passed(reached.epoch);
}

void block_allocator::forget(stream_ref stream) {
  // Streams that have no state end without any slow path.
  if (all_.streams.find(stream) == nullptr) return;
  slow_path_turn turn{all_};
  serial_.store(next_serial(), std::memory_order_release);
  stream_state* const left = all_.streams.find(stream);
  if (left == nullptr) return;
  empty_caches(all_, *left);
  bool lacks_fence = false;
  {
    const state_lock lock{all_.state_mutex};
    lacks_fence = left->lacks_fence();
  }
  std::shared_ptr<const fence> recorded;
  if (lacks_fence) recorded = all_.streams.make_fence(*left, left);
  if (lacks_fence && recorded == nullptr)
    throw std::invalid_argument{
        "forget_stream: the stream is being captured into a graph; end the capture before"};
  all_.streams.forget(*left, std::move(recorded));
  maintenance{all_, turn}.poll_fences({left});
}

void block_allocator::forget_ended(stream_ref stream) {
  try {
    forget(stream);
  } catch (...) {
    // The next stream may have the handle, and must not find this state by it.
    const slow_path_turn turn{all_};
    if (stream_state* const left = all_.streams.find(stream)) all_.streams.forget(*left, nullptr);
    throw;
  }
}

std::size_t block_allocator::trim(std::size_t bytes_to_keep,
                                  std::chrono::steady_clock::time_point deadline) {
  const detail::profiler_range range{"hipvmm pool: trim"};
  using namespace std::chrono_literals;
  // What others create and free meanwhile is none of it: they could go on for ever.
  const std::size_t held_first = physical_bytes();
  const std::size_t most = held_first - std::min(held_first, bytes_to_keep);
  std::size_t returned = 0;
  for (auto pause = 20us;; pause = std::min(2 * pause, 1000us)) {
    while (all_.waiting_slow_paths.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
    maintenance::trimmed some{};
    {
      slow_path_turn turn{all_};
      if (is_asleep()) break;
      const std::size_t held = physical_bytes();
      const std::size_t least = held - std::min(held, most - returned);
      some = maintenance{all_, turn}.trim(std::max(bytes_to_keep, least));
    }
    returned += some.bytes;
    if (!some.may_go_on || returned >= most) break;
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
  if (returned == 0 || bytes_to_keep == 0 || all_.memory.returns_memory()) return returned;
  const std::size_t held = counters().physical_bytes;
  if (held >= bytes_to_keep) return returned;
  // Memory that others have taken meanwhile is no failure of the trim.
  detail::report_exceptions([&] { reserve(bytes_to_keep / unit * unit); });
  const std::size_t now = counters().physical_bytes;
  return returned - std::min(returned, now - std::min(now, held));
}

maintenance::trimmed block_allocator::trim_some(std::size_t bytes_to_keep) {
  if (all_.waiting_slow_paths.load(std::memory_order_relaxed) != 0) return {0, true};
  maintenance::trimmed some{};
  {
    slow_path_turn turn{all_};
    if (is_asleep()) return {0, false};
    some = maintenance{all_, turn}.trim(bytes_to_keep);
  }
  some.bytes = restore_kept(bytes_to_keep, some.bytes);
  return some;
}

void block_allocator::unmap_old_addresses() {
  slow_path_turn turn{all_};
  if (is_asleep()) return;
  maintenance at_work{all_, turn};
  at_work.poll_fences(all_.streams.all());
  static_cast<void>(at_work.unmap_old_addresses());
}

void block_allocator::drain() {
  const detail::profiler_range range{"hipvmm pool: drain"};
  empty_all_caches();
  slow_path_turn turn{all_};
  std::vector<const stream_state*> without_fence;
  maintenance{all_, turn}.wait_for_streams(all_.streams.all(), without_fence);
}

void block_allocator::record_fences() {
  empty_all_caches();
  const slow_path_turn turn{all_};
  std::vector<const stream_state*> without_fence;
  all_.streams.record_missing_fences(all_.streams.all(), nullptr, without_fence);
}

void block_allocator::reserve(std::size_t bytes) {
  if (bytes == 0) return;
  const pool_counters before = counters();
  // Allocated and freed: what is backed stays.
  const std::optional<std::size_t> at = allocate(idle(), bytes, unit);
  if (!at) return;
  deallocate(idle(), *at, bytes);
  // It was no request. More than what is held takes new chunks.
  constexpr auto source = static_cast<std::size_t>(pool_source::new_chunks);
  const state_lock lock{all_.state_mutex};
  if (all_.served[source] > before.served[source]) --all_.served[source];
  all_.index.lower_used_high(before.used_high, bytes);
}

bool block_allocator::is_asleep() {
  const state_lock lock{all_.state_mutex};
  return all_.refusal != nullptr;
}

void block_allocator::fall_asleep(const std::string& refusal) noexcept {
  // From here on what is freed passes through the caches, where a request would find it.
  ++all_.last_resorts;
  const state_lock lock{all_.state_mutex};
  all_.refusal = &refusal;
}

void block_allocator::wake() noexcept {
  {
    const state_lock lock{all_.state_mutex};
    all_.refusal = nullptr;
  }
  --all_.last_resorts;
}

void block_allocator::release_idle() {
  drain();
  // They are on their way to the index.
  while (all_.carriers.load() != 0) std::this_thread::yield();
  slow_path_turn turn{all_};
  // The background worker may be unmapping; it begins nothing more.
  turn.wait_for_others();
  maintenance at_work{all_, turn};
  while (at_work.trim(0).bytes != 0) continue;
  if (all_.old_addresses.empty() && all_.refused.empty()) return;
  std::size_t bytes = 0;
  {
    const state_lock lock{all_.state_mutex};
    for (const auto& each : all_.old_addresses) bytes += each.addresses->bytes;
    for (const auto& each : all_.refused) bytes += each.addresses->bytes;
  }
  throw std::invalid_argument{
      "suspend: " + format_bytes(bytes) + " of " + name_of(all_) +
      " are still mapped at addresses that their chunks have left, which work of a capture may use "
      "or HIP refused to unmap: suspend again when captures have ended"};
}

void block_allocator::set_reuse(pool_reuse reuse) {
  const state_lock lock{all_.state_mutex};
  all_.reuse = reuse;
}

void block_allocator::set_limit(std::size_t physical_bytes) {
  const state_lock lock{all_.state_mutex};
  all_.limit = physical_bytes;
}

void block_allocator::set_largest_chunk(std::size_t bytes) {
  const state_lock lock{all_.state_mutex};
  all_.largest_chunk = bytes;
}

void block_allocator::reset_highs() {
  const state_lock lock{all_.state_mutex};
  all_.index.reset_highs();
}

pool_counters block_allocator::counters() {
  const state_lock lock{all_.state_mutex};
  const block_index& index = all_.index;
  return {all_.served,           all_.chunks_created, all_.chunks_moved, index.physical_bytes(),
          index.physical_high(), index.used_bytes(),  index.used_high()};
}

}  // namespace hipvmm::mr::pool
