// SPDX-License-Identifier: MIT
#include "mr/pool/pool_state.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/background_thread.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"
#include "mr/pool/backend/upstream_backend.hpp"
#include "mr/pool/pool_report.hpp"
#include "mr/stream_wait.hpp"

namespace hipvmm::mr {
namespace {

constexpr const char* foreign_address =
    "the address is none of this pool's: free it by the resource that allocated it";

/// Pre: `bytes` is at most the maximum of a pool, so that nothing overflows.
constexpr std::size_t in_units(std::size_t bytes) noexcept {
  return (bytes + pool::block_allocator::unit - 1) & ~(pool::block_allocator::unit - 1);
}

/// Calls `note` with `stream`, or without one if there is none or HIP fails. For a default stream
/// the pool's device is current.
template <typename Note>
void note_in(std::optional<stream_ref> stream, device_ref device, Note note) noexcept {
  try {
    if (!stream) return note();
    std::optional<scoped_device> scope;
    if (stream->is_default() || stream->is_per_thread_default()) scope.emplace(device);
    note(stream->get());
  } catch (const std::exception&) {
    note();
  }
}

}  // namespace

pool_state::pool_state(const pool_messages& names, device_ref owner,
                       std::unique_ptr<pool::addressed_backend> from, std::size_t maximum_bytes,
                       const pool_options& options)
    : texts{names},
      device{owner},
      memory{std::move(from)},
      maximum{maximum_bytes},
      fences{owner, options.forgets_streams},
      address_bytes{memory->traits.address_bytes},
      on_slabs{!memory->traits.moves_chunks},
      allocator{*memory, fences, memory->base()},
      threshold{options.release_threshold} {
  allocator.set_limit(maximum);
  if (options.largest_chunk != 0) allocator.set_largest_chunk(options.largest_chunk);
  allocator.set_event_origin(origin());
  allocator.set_reuse(options.reuse);
  detail::log<log_level::info>([&] {
    return pool::name_of_pool(allocator.base()) + " has at most " + format_limit(maximum) +
           " of device " + std::to_string(device.ordinal()) + ": " + memory->explain();
  });
}

template <typename Allocate>
void* pool_state::serve(const pool::request& wanted, Allocate allocate) {
  pool::slab_supply supply;
  for (detail::retry_rounds rounds;;) {
    std::optional<out_of_memory> cause;
    try {
      std::optional<std::size_t> at;
      cause = detail::refusal_of([&] {
        at = allocate(&supply);
        if (at && allocator.has_addresses_to_unmap()) unmap_in_background();
      });
      if (at && !cause) return address_of(*at);
    } catch (const pool::slab_needed& needed) {
      supply.bring(needed, device);
      continue;
    }
    // Releases idle memory that does not serve the request; the next round creates what it needs.
    const bool has_released = detail::report_exceptions([&] {
      return wanted.alignment <= address_bytes &&
             allocator.may_release_serve(wanted.bytes, memory->available().bytes) &&
             allocator.trim(0, {}) != 0;
    });
    if (has_released) {
      supply.forget_refusal();
      continue;
    }
    std::shared_ptr<const std::function<bool(std::size_t bytes)>> asked;
    {
      const std::lock_guard lock{settings};
      asked = callback;
    }
    const out_of_memory failure = explain(wanted, cause);
    const bool goes_on = asked && rounds.may_help(failure.why());
    if (goes_on) ++callbacks;
    if (!goes_on || !(*asked)(wanted.bytes)) {
      detail::log<log_level::error>(
          [&] { return pool::name_of_pool(allocator.base()) + ": " + failure.what(); });
      report_event(memory_event_kind::out_of_memory, {.bytes = wanted.bytes});
      throw out_of_memory{failure};
    }
    supply.forget_refusal();
  }
}

void* pool_state::allocate(pool::stream_state& user, const pool::request& wanted) {
  constexpr std::size_t unit = pool::block_allocator::unit;
  if (on_slabs && wanted.alignment > memory->traits.granularity)
    throw unsupported{
        texts.name + (": an alignment of " + std::to_string(wanted.alignment)) +
        " bytes, more than the slabs have that its memory consists of: ask for at most " +
        std::to_string(memory->traits.granularity)};
  return serve(wanted, [&](pool::slab_supply* supply) -> std::optional<std::size_t> {
    // The allocator gets no request beyond the addresses, because its sums would overflow.
    if (wanted.bytes > maximum || wanted.alignment > address_bytes) return std::nullopt;
    return allocator.allocate(user, {align_up(wanted.bytes, unit), std::max(wanted.alignment, unit),
                                     wanted.is_for_graph, supply});
  });
}

void* pool_state::allocate_for_graph(stream_ref captured, std::size_t bytes,
                                     std::size_t alignment) {
  allocator.state_of(captured).note_capture();
  const detail::without_pressure_calls in_capture;
  void* const made = allocate(allocator.idle(), {bytes, alignment, true});
  if (detail::is_observed()) report_allocation(made, bytes, std::nullopt);
  return made;
}

out_of_memory pool_state::explain(const pool::request& wanted,
                                  const std::optional<out_of_memory>& refused) {
  shortage why{.device = device.ordinal(), .requested = wanted.bytes};
  if (refused) why = refused->why();
  // The caller gets out_of_memory even if HIP does not report the free memory.
  detail::report_exceptions([&] {
    const pool::allocator_statistics now = allocator.usage_snapshot(memory->available());
    const std::uintptr_t base = on_slabs ? 0 : allocator.base();
    const std::uintptr_t first =
        (base + wanted.alignment - 1) / wanted.alignment * wanted.alignment;
    pool_bounds bounds{device, texts.name, texts.limit_name, maximum, address_bytes, 0, 0, 0};
    bounds.most_aligned = address_bytes - std::min(address_bytes, first - base);
    bounds.free = device.free_memory();
    // Free and held memory may exceed a total that is a part of the host's memory.
    bounds.total = memory->is_of_device() ? std::max(device.total_memory(),
                                                     add_bytes(bounds.free, now.reserved_current))
                                          : std::numeric_limits<std::size_t>::max();
    why = shortage_of(wanted, now, bounds, now.largest_place, refused ? &refused->why() : nullptr);
    why.context += (why.context.empty() ? "" : "; ") + texts.describe(now, maximum);
  });
  return out_of_memory{why};
}

pool_statistics pool_state::statistics() {
  pool_statistics result = allocator.usage_snapshot(memory->available());
  result.callbacks = callbacks;
  return result;
}

pool_snapshot pool_state::snapshot() {
  pool_snapshot result{event_id, device.ordinal(), 0, 0, address_bytes, {}};
  // No slab comes or goes meanwhile.
  allocator.with_backend([&] {
    result.address = allocator.base();
    std::size_t end = 0;
    for (const pool::listed_block& each : allocator.list_blocks()) {
      const auto address = reinterpret_cast<std::uintptr_t>(address_of(each.offset));
      if (result.segments.empty() || each.offset != end)
        result.segments.push_back({address, 0, {}});
      pool_snapshot::segment& around = result.segments.back();
      around.blocks.push_back({address, each.bytes, each.use, each.stream});
      around.bytes += each.bytes;
      end = each.offset + each.bytes;
    }
  });
  result.time_ns = detail::event_time();
  return result;
}

void pool_state::refuse(const void* pointer, std::optional<std::size_t> bytes,
                        const std::string& why) const noexcept {
  detail::report_exceptions([&] {
    const std::string freed = bytes ? std::to_string(*bytes) + " bytes" : std::string{"memory"};
    throw std::invalid_argument{texts.name + (": " + freed) + " at " +
                                detail::address_text(pointer) + (bytes ? " were" : " was") +
                                " not deallocated: " + why};
  });
}

bool pool_state::is_captured(pool::stream_state& user) noexcept {
  const std::uint32_t seen = user.captures();
  if (!user.may_be_captured()) return false;
  try {
    if (detail::is_captured(user.stream())) return true;
  } catch (const hip_error&) {
    // The stream is gone, and so is the capture.
  }
  user.end_captures(seen);
  return false;
}

std::string pool_state::report() {
  return report_of(statistics(), device, maximum) + "memory: " + memory->explain() + "\n";
}

void pool_state::expect_all_devices() {
  for (const device_ref each : detail::all_devices()) fences.add(each);
}

bool pool_state::ends_unused() noexcept {
  std::size_t used = 0;
  detail::report_exceptions([&] { used = allocator.usage_snapshot().used_current; });
  if (used != 0)
    detail::report_exceptions([&] {
      throw std::logic_error{texts.name + (": destroyed with " + format_bytes(used)) +
                             " still in use, which it releases: deallocate all memory first, "
                             "because a later free of it is an error of the program"};
    });
  return used == 0;
}

void pool_state::wait_for_devices_without_access() noexcept {
  const bool known = detail::report_exceptions([&] {
    // Making the fences shows which devices the streams are of.
    if (device_count() > 1) allocator.record_fences();
  });
  detail::report_exceptions([&] {
    if (known) return fences.synchronize_without_access();
    expect_all_devices();
    fences.synchronize();
  });
}

void pool_state::finish() noexcept {
  if (ends_unused() && detail::report_exceptions([&] { allocator.drain(); })) return;
  // Work of any device may use memory that callers have not deallocated.
  detail::report_exceptions([this] { fences.synchronize(); });
}

bool pool_state::deallocate(pool::stream_state& user, void* pointer, std::size_t bytes) {
  const auto refused = [&](const std::string& why) {
    refuse(pointer, bytes, why);
    return false;
  };
  const std::optional<std::size_t> offset = offset_of(pointer);
  if (!offset) return refused(foreign_address);
  // No allocation has 0 bytes or more than the maximum, beyond which sums would overflow.
  const bool is_possible = bytes != 0 && bytes <= maximum;
  const std::size_t held = is_possible ? in_units(bytes) : 0;
  const bool makes_fence = user.thread() != 0 || user.newest_fence().is_made_by_frees();
  bool taken = false;
  if (is_possible && !makes_fence) {
    if (is_captured(user)) return refused(pool::captured_stream);
    taken = allocator.deallocate(user, *offset, held);
  } else if (is_possible) {
    try {
      taken = allocator.deallocate_and_record(user, *offset, held);
    } catch (const std::invalid_argument& captured) {
      return refused(captured.what());
    } catch (const std::exception&) {
      // Without a fence the pool cannot know when the stream has passed, nor of which device it is.
      fences.note_unknown_user();
      taken = allocator.deallocate(allocator.all_streams(), *offset, held);
    }
  }
  if (!taken) {
    const auto found = allocator.find(*offset);
    return refused(found ? "the allocation there has " + std::to_string(found->bytes) + " bytes"
                         : "no allocation begins there; it may have been freed before");
  }
  if (threshold.load(std::memory_order_relaxed) != std::numeric_limits<std::size_t>::max())
    release_excess();
  return true;
}

bool pool_state::deallocate_in(const std::optional<stream_ref>& stream, void* pointer,
                               std::size_t bytes) {
  if (!stream) return deallocate(allocator.all_streams(), pointer, bytes);
  pool::stream_state* user = nullptr;
  try {
    if (!deallocate_cached(*stream, pointer, bytes)) user = &allocator.state_of(*stream);
  } catch (const std::exception&) {
    // Without a state there is no fence either, as in deallocate().
    fences.note_unknown_user();
    user = &allocator.all_streams();
  }
  if (user != nullptr) return deallocate(*user, pointer, bytes);
  release_cached_excess();
  return true;
}

void pool_state::deallocate(void* pointer) {
  const std::optional<std::size_t> offset = offset_of(pointer);
  if (!offset) return refuse(pointer, std::nullopt, foreign_address);
  const auto found = allocator.find(*offset);
  if (!found)
    return refuse(pointer, std::nullopt,
                  "no allocation begins there; it may have been freed before");
  // As in hipFree, the memory waits for all work if its stream is not known or may have vanished.
  const bool is_unknown =
      found->user == nullptr || found->user->is_idle() || found->user->may_vanish();
  deallocate(is_unknown ? std::nullopt : std::optional{found->user->stream()}, pointer,
             found->bytes);
}

void pool_state::report_allocation(void* pointer, std::size_t bytes,
                                   const std::optional<stream_ref>& stream) {
  if (const auto made = is_noted ? allocator.find(*offset_of(pointer)) : std::nullopt) {
    const std::size_t held = made->bytes;
    note_in(stream, device, [&](auto... in) { detail::note_allocation(pointer, held, in...); });
  }
  report_event(memory_event_kind::allocate, {.address = detail::event_address(pointer),
                                             .bytes = bytes,
                                             .stream = stream ? stream->get() : nullptr});
}

bool pool_state::deallocate_observed(const std::optional<stream_ref>& stream, void* pointer,
                                     std::size_t bytes) {
  const std::int64_t began = detail::event_time();
  const std::optional<std::size_t> offset = is_noted ? offset_of(pointer) : std::nullopt;
  // If the pool refuses the call below, the checker gets no note of it, or the note is withdrawn.
  const auto known = offset ? allocator.find(*offset) : std::nullopt;
  const std::size_t held = known ? known->bytes : 0;
  if (held != 0)
    note_in(stream, device, [&](auto... in) { detail::note_deallocation(pointer, held, in...); });
  const bool is_freed = deallocate_in(stream, pointer, bytes);
  if (held != 0 && !is_freed) detail::note_refused_deallocation(pointer, held);
  if (is_freed)
    report_event(memory_event_kind::deallocate, {.address = detail::event_address(pointer),
                                                 .bytes = bytes,
                                                 .stream = stream ? stream->get() : nullptr,
                                                 .time_ns = began});
  return is_freed;
}

void* pool_state::allocate_cached(stream_ref stream, std::size_t bytes) {
  const pool::block_allocator::cache_user user = allocator.cache_user_of(stream);
  std::size_t cached = pool::thread_cache::npos;
  if (bytes <= pool::largest_small_block)
    cached = allocator.cached_small_block(user, pool::classes.of(bytes));
  else if (bytes <= maximum)
    cached = allocator.cached_block(user, in_units(bytes));
  return cached != pool::thread_cache::npos ? address_of(cached) : allocate_uncached(user, bytes);
}

void* pool_state::allocate_uncached(const pool::block_allocator::cache_user& user,
                                    std::size_t bytes) {
  constexpr std::size_t unit = pool::block_allocator::unit;
  return serve({bytes, unit}, [&](pool::slab_supply* supply) -> std::optional<std::size_t> {
    if (bytes > maximum) return std::nullopt;
    return bytes <= pool::largest_small_block
               ? allocator.allocate_small_block(user, pool::classes.of(bytes), supply)
               : allocator.allocate_block(user, in_units(bytes), supply);
  });
}

bool pool_state::deallocate_cached(stream_ref stream, void* pointer, std::size_t bytes) {
  const std::optional<std::size_t> offset = offset_of(pointer);
  if (bytes == 0 || bytes > maximum || !offset || is_per_thread(stream)) return false;
  const pool::block_allocator::cache_user user = allocator.cache_user_of(stream);
  if (user.state->free_asks_hip()) return false;
  if (bytes <= pool::largest_small_block)
    return allocator.deallocate_small_block(user, pool::classes.of(bytes), *offset);
  // With a threshold large blocks bypass the cache: cached memory counts as used, not as excess.
  return threshold.load(std::memory_order_relaxed) == std::numeric_limits<std::size_t>::max() &&
         allocator.deallocate_block(user, *offset, in_units(bytes));
}

void pool_state::release_excess() {
  const std::size_t keep = threshold.load(std::memory_order_relaxed);
  const pool_usage now = allocator.counters();
  if (now.reserved_current <= std::max(keep, now.used_current)) return;
  // The memory was deallocated: a failure here must not say otherwise.
  detail::report_exceptions([&] {
    if (!releasing.request()) allocator.trim(keep, std::chrono::steady_clock::time_point{});
  });
}

void pool_state::release_cached_excess() {
  const std::size_t keep = threshold.load(std::memory_order_relaxed);
  if (keep == std::numeric_limits<std::size_t>::max() || allocator.physical_bytes() <= keep) return;
  detail::report_exceptions([&] {
    if (!releasing.request_in(std::chrono::milliseconds{10}))
      allocator.trim(keep, std::chrono::steady_clock::time_point{});
  });
}

void pool_state::unmap_in_background() noexcept {
  // The request has been served: a failure here must not lose its memory.
  detail::report_exceptions([this] {
    if (!releasing.request()) allocator.unmap_old_addresses();
  });
}

void pool_state::release_some() noexcept {
  using namespace std::chrono_literals;
  constexpr std::chrono::microseconds shortest = 20us;
  constexpr std::chrono::microseconds longest = 1000us;
  detail::report_exceptions([&] {
    const std::size_t keep = threshold.load(std::memory_order_relaxed);
    pool::maintenance::trimmed done{0, false};
    if (keep == std::numeric_limits<std::size_t>::max())
      allocator.unmap_old_addresses();
    else
      done = allocator.trim_some(keep);
    if (!done.may_go_on && !allocator.has_addresses_to_unmap()) {
      pause = 0us;
      return;
    }
    pause = done.bytes != 0 ? shortest : std::clamp(2 * pause, shortest, longest);
    releasing.run_again_in(pause);
  });
}

}  // namespace hipvmm::mr
