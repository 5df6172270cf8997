// SPDX-License-Identifier: MIT
#include <hipvmm/mr/vmm_pool_resource.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "mr/pool/engine.hpp"
#include "mr/pool/event_marks.hpp"
#include "mr/pool/region_memory.hpp"
#include "mr/pool_report.hpp"

namespace hipvmm::mr {
namespace {

// Moving chunks leaves holes of addresses behind, which are used again; with several times the
// addresses they are long enough.
constexpr std::size_t addresses_for_memory = 8;

/// Pre: less than any device's memory.
constexpr std::size_t in_units(std::size_t bytes) noexcept {
  return (bytes + pool::engine::unit - 1) & ~(pool::engine::unit - 1);
}

std::size_t maximum_of(device_ref device, const pool_options& options) {
  require_device(device);
  const std::size_t total = device.total_memory();
  const std::size_t maximum =
      options.maximum_bytes == 0 ? total : std::min(options.maximum_bytes, total);
  if (options.initial_bytes > maximum)
    throw std::invalid_argument{"a pool that begins with " + format_bytes(options.initial_bytes) +
                                " and may hold " + format_bytes(maximum) +
                                ": initial_bytes must not exceed that"};
  return maximum;
}

void refuse(const void* pointer, std::size_t bytes, const std::string& why) noexcept {
  detail::report_exceptions([&] {
    throw std::invalid_argument{"vmm_pool_resource: " + std::to_string(bytes) + " bytes at " +
                                std::to_string(reinterpret_cast<std::uintptr_t>(pointer)) +
                                " were not taken back: " + why};
  });
}

}  // namespace

struct vmm_pool_resource::state {
  state(device_ref owner, const pool_options& options)
      : device{owner},
        maximum{maximum_of(owner, options)},
        memory{owner, addresses_for_memory * maximum, options.shareable},
        marks{owner},
        base{reinterpret_cast<std::uintptr_t>(memory.memory().base())},
        books{memory, marks, base},
        threshold{options.release_threshold},
        reuse{options.reuse} {
    books.set_limit(align_down(maximum, memory.granularity()));
    books.set_rules(rules());
  }

  [[nodiscard]] pool::reuse_rules rules() const {
    return {reuse.follow_event_dependencies, reuse.allow_opportunistic,
            reuse.allow_internal_dependencies};
  }
  [[nodiscard]] bool is_per_thread(stream_ref stream) const noexcept {
    return stream == per_thread;
  }
  [[nodiscard]] pool::stream_ledger& ledger_of(stream_ref stream) {
    return is_per_thread(stream) ? books.ledger_of_thread(stream) : books.ledger_of(stream);
  }
  void* allocate(pool::stream_ledger& user, std::size_t bytes, std::size_t alignment);
  /// By way of the caches.
  void* allocate_cached(stream_ref stream, std::size_t bytes);
  /// False, nothing done, for what does not go into a cache.
  bool deallocate_cached(stream_ref stream, void* pointer, std::size_t bytes);
  /// The memory that `allocate` finds, which is tried again as long as the callback wants that.
  template <typename Allocate>
  void* serve(std::size_t bytes, Allocate allocate);
  [[noreturn]] void fail(std::size_t bytes, const std::optional<out_of_memory>& cause);
  [[nodiscard]] pool_statistics statistics();
  void deallocate(pool::stream_ledger& user, void* pointer, std::size_t bytes);
  void release_excess() noexcept;

  device_ref device;
  const stream_ref per_thread = stream_ref::per_thread_default();
  std::size_t maximum;
  pool::region_memory memory;
  pool::event_marks marks;
  std::uintptr_t base;
  pool::engine books;
  std::atomic<std::size_t> threshold;
  std::atomic<std::uint64_t> callbacks{0};

  std::mutex settings;
  pool_reuse reuse;
  std::shared_ptr<const out_of_memory_callback> callback;
};

template <typename Allocate>
void* vmm_pool_resource::state::serve(std::size_t bytes, Allocate allocate) {
  for (;;) {
    std::optional<out_of_memory> cause;
    try {
      if (const std::optional<std::size_t> at = allocate())
        return reinterpret_cast<void*>(base + *at);
    } catch (const out_of_memory& error) {
      cause.emplace(error);
    }
    std::shared_ptr<const out_of_memory_callback> asked;
    {
      const std::lock_guard lock{settings};
      asked = callback;
    }
    if (!asked) fail(bytes, cause);
    ++callbacks;
    if (!(*asked)(bytes)) fail(bytes, cause);
  }
}

void* vmm_pool_resource::state::allocate(pool::stream_ledger& user, std::size_t bytes,
                                         std::size_t alignment) {
  constexpr std::size_t unit = pool::engine::unit;
  return serve(bytes, [&]() -> std::optional<std::size_t> {
    // More than the addresses hold is not asked of the books, whose sums would overflow.
    if (bytes > maximum || alignment > memory.address_bytes()) return std::nullopt;
    return books.allocate(user, align_up(bytes, unit), std::max(alignment, unit));
  });
}

void vmm_pool_resource::state::fail(std::size_t bytes, const std::optional<out_of_memory>& cause) {
  const std::string why = shortage_of(statistics(), bytes, maximum);
  if (cause) throw out_of_memory{*cause, why};
  throw out_of_memory{exhausted::device_memory, device.ordinal(), bytes, device.free_memory(), why};
}

pool_statistics vmm_pool_resource::state::statistics() {
  books.empty_all_caches();
  const pool::engine_counters counted = books.counters();
  const pool::telemetry seen = books.look();
  pool_statistics result{};
  result.reserved_current = seen.physical_bytes;
  result.reserved_high = counted.physical_high;
  result.used_current = seen.used_bytes;
  result.used_high = counted.used_high;
  result.address_bytes = seen.address_bytes;
  result.mapped_bytes = seen.mapped_bytes;
  result.largest_now = seen.largest_run;
  result.largest_moved = seen.largest_moved;
  const std::size_t allowed = maximum - std::min(maximum, seen.physical_bytes);
  result.largest_possible = seen.largest_moved + align_down(std::min(allowed, device.free_memory()),
                                                            memory.granularity());
  result.chunks_created = counted.chunks_created;
  result.chunks_moved = counted.chunks_moved;
  result.callbacks = callbacks;
  result.served = counted.served;
  for (const auto& each : seen.streams) result.streams.push_back({each.stream, each.free_bytes});
  return result;
}

void vmm_pool_resource::state::deallocate(pool::stream_ledger& user, void* pointer,
                                          std::size_t bytes) {
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::size_t offset = address - base;
  const std::size_t held = align_up(bytes, pool::engine::unit);
  if (address < base || offset >= memory.address_bytes())
    return refuse(pointer, bytes, "the address is none of this pool's");
  bool taken = false;
  if (user.thread() == 0) {
    taken = books.deallocate(user, offset, held);
  } else {
    try {
      taken = books.deallocate_and_mark(user, offset, held);
    } catch (const hip_error&) {
      // Without a mark nobody could tell when the memory is free: now it is.
      device.synchronize();
      taken = books.deallocate(books.idle(), offset, held);
    }
  }
  if (!taken) {
    const auto found = books.find(offset);
    return refuse(pointer, bytes,
                  found ? "the allocation there has " + std::to_string(found->bytes) + " bytes"
                        : "no allocation begins there; it may have been given back before");
  }
  if (threshold.load(std::memory_order_relaxed) != std::numeric_limits<std::size_t>::max())
    release_excess();
}

void* vmm_pool_resource::state::allocate_cached(stream_ref stream, std::size_t bytes) {
  const pool::engine::small_user user = books.small_user_of(stream);
  if (bytes <= pool::largest_piece)
    return serve(bytes, [&] {
      return books.allocate_piece(*user.ledger, *user.cache, pool::classes.of(bytes));
    });
  return serve(bytes, [&]() -> std::optional<std::size_t> {
    if (bytes > maximum) return std::nullopt;
    return books.allocate_block(*user.ledger, *user.cache, in_units(bytes));
  });
}

bool vmm_pool_resource::state::deallocate_cached(stream_ref stream, void* pointer,
                                                 std::size_t bytes) {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(pointer) - base;
  if (bytes == 0 || bytes > maximum || offset >= memory.address_bytes() || is_per_thread(stream))
    return false;
  const pool::engine::small_user user = books.small_user_of(stream);
  if (bytes <= pool::largest_piece)
    return books.deallocate_piece(*user.ledger, *user.cache, pool::classes.of(bytes), offset);
  // What a cache keeps is not released: with a threshold large memory goes past it.
  return threshold.load(std::memory_order_relaxed) == std::numeric_limits<std::size_t>::max() &&
         books.deallocate_block(*user.ledger, *user.cache, offset, in_units(bytes));
}

void vmm_pool_resource::state::release_excess() noexcept {
  detail::report_exceptions([this] {
    const std::size_t keep = threshold.load(std::memory_order_relaxed);
    const pool::engine_counters now = books.counters();
    if (now.physical_bytes > keep && now.physical_bytes > now.used_bytes)
      books.trim(std::max(keep, now.used_bytes), std::chrono::steady_clock::time_point{});
  });
}

vmm_pool_resource::vmm_pool_resource(device_ref device, const pool_options& options)
    : state_{std::make_unique<state>(device, options)} {
  state_->books.reserve(align_up(options.initial_bytes, state_->memory.granularity()));
  if (state_->books.counters().physical_bytes < options.initial_bytes)
    state_->fail(options.initial_bytes, std::nullopt);
}

vmm_pool_resource::~vmm_pool_resource() {
  std::size_t used = 0;
  detail::report_exceptions([&] {
    state_->books.empty_all_caches();
    used = state_->books.counters().used_bytes;
  });
  if (used == 0) return;
  detail::report_exceptions([used] {
    throw std::logic_error{"vmm_pool_resource: it ends with " + format_bytes(used) +
                           " still handed out, which go with it: give all back before"};
  });
}

void* vmm_pool_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  if (alignment <= pool::engine::unit && !state_->is_per_thread(stream))
    return state_->allocate_cached(stream, bytes);
  return state_->allocate(state_->ledger_of(stream), bytes, alignment);
}

void vmm_pool_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                      std::size_t) noexcept {
  detail::report_exceptions([&] {
    if (!state_->deallocate_cached(stream, pointer, bytes))
      state_->deallocate(state_->ledger_of(stream), pointer, bytes);
  });
}

void* vmm_pool_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return state_->allocate(state_->books.idle(), bytes, alignment);
}

void vmm_pool_resource::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  detail::report_exceptions([&] { state_->deallocate(state_->books.idle(), pointer, bytes); });
}

void vmm_pool_resource::deallocate(void* pointer) noexcept {
  if (pointer == nullptr) return;
  detail::report_exceptions([&] {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pointer);
    const auto found = state_->books.find(address - state_->base);
    if (!found) return refuse(pointer, 0, "no allocation begins there");
    pool::stream_ledger* user = found->user;
    if (state_->books.is_out_of_reach(*user)) {
      state_->device.synchronize();
      user = &state_->books.idle();
    }
    if (user->thread() != 0 || user->is_idle() ||
        !state_->deallocate_cached(user->stream(), pointer, found->bytes))
      state_->deallocate(*user, pointer, found->bytes);
  });
}

void vmm_pool_resource::note_stream_wait(stream_ref waiter, stream_ref other) {
  if (waiter == other) return;
  state_->books.note_follows(state_->ledger_of(waiter), state_->ledger_of(other));
}

void vmm_pool_resource::forget_stream(stream_ref stream) { state_->books.forget(stream); }

pool_reuse vmm_pool_resource::reuse() const {
  const std::lock_guard lock{state_->settings};
  return state_->reuse;
}

void vmm_pool_resource::set_reuse(pool_reuse reuse) {
  const std::lock_guard lock{state_->settings};
  state_->reuse = reuse;
  state_->books.set_rules(state_->rules());
}

std::size_t vmm_pool_resource::release_threshold() const noexcept { return state_->threshold; }

void vmm_pool_resource::set_release_threshold(std::size_t bytes) {
  state_->threshold = bytes;
  state_->books.empty_all_caches();
  state_->release_excess();
}

std::size_t vmm_pool_resource::maximum_bytes() const { return state_->maximum; }

void vmm_pool_resource::grant(device_ref device, access_right right) {
  const auto alone = state_->books.hold_memory();
  if (right != access_right::none) state_->marks.add(device);
  state_->memory.memory().grant(device, right);
}

access_right vmm_pool_resource::access(device_ref device) const {
  const auto alone = state_->books.hold_memory();
  return state_->memory.memory().access(device);
}

std::size_t vmm_pool_resource::trim_to(std::size_t bytes_to_keep,
                                       std::chrono::steady_clock::time_point deadline) {
  return state_->books.trim(bytes_to_keep, deadline);
}

void vmm_pool_resource::set_out_of_memory_callback(out_of_memory_callback callback) {
  auto next =
      callback ? std::make_shared<const out_of_memory_callback>(std::move(callback)) : nullptr;
  const std::lock_guard lock{state_->settings};
  state_->callback = std::move(next);
}

void vmm_pool_resource::reset_peaks() { state_->books.reset_highs(); }

device_ref vmm_pool_resource::device() const noexcept { return state_->device; }

pool_statistics vmm_pool_resource::statistics() const { return state_->statistics(); }

std::string vmm_pool_resource::report() const {
  return report_of(state_->statistics(), state_->device, state_->maximum);
}

}  // namespace hipvmm::mr
