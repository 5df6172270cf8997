// SPDX-License-Identifier: MIT
#include "preload/replacement.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>  // IWYU pragma: keep
#include <shared_mutex>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "c/configured_budget.hpp"
#include "c/settings.hpp"
#include "core/check.hpp"
#include "runtime/device.hpp"
#include "runtime/stream.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm::preload {
namespace {

// hipErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY
constexpr int out_of_memory_code = 2;

// Short, because other tasks of the library need the thread.
constexpr std::chrono::milliseconds quiet_patience{5};
constexpr unsigned most_doublings = 6;

void* never_allocated() noexcept {
  static char byte;
  return &byte;
}

/// Over a budget: more than any device has, so that the program gets HIP's own code and last error.
std::size_t asked_of_hip(passed why, std::size_t bytes) noexcept {
  constexpr std::size_t too_much = std::size_t{1} << 60;
  return why == passed::over_budget ? too_much : bytes;
}

std::uintptr_t number(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// Gives the thread a context, as CUDA's own function would: the pool may serve a request without a
/// call of CUDA.
void bind_thread() noexcept {
  thread_local bool is_bound = false;
  if (is_bound) return;
  is_bound = true;
  detail::report_exceptions(detail::bind_context);
}

/// nullopt if the pool serves the call. If the query fails, HIP's own function reports the error.
std::optional<passed> reason_of_stream(stream_ref stream) noexcept {
  try {
    return stream.is_capturing() ? std::optional{passed::captured} : std::nullopt;
  } catch (const hip_error& error) {
    // The legacy stream beside a capture.
    return error.code() == hipErrorStreamCaptureImplicit ? passed::captured : passed::failed;
  } catch (const std::exception&) {
    return passed::failed;
  }
}

}  // namespace

template <typename Visit>
void replacement::for_each_pool(Visit visit) const {
  const std::shared_lock lock{visiting_};
  for (const device_pool& each : pools_)
    if (served_device* const made = each.made.load(std::memory_order_acquire)) visit(made->memory);
}

std::optional<passed> replacement::reason_to_pass(void** pointer,
                                                  std::size_t bytes) const noexcept {
  if (is_child_) return passed::in_child;
  if (has_context_) return passed::own_context;
  if (pointer == nullptr || bytes == 0) return passed::argument;
  if (bytes < settings_.threshold) return passed::too_small;
  // A program that has hipvmm itself waits by the free of an allocation of this size.
  if (bytes == detail::bytes_of_wait_by_free && !settings_.free_waits) return passed::too_small;
  if (bytes > settings_.most) return passed::too_large;
  return std::nullopt;
}

template <typename Allocate>
std::optional<passed> replacement::serve(void** pointer, std::size_t bytes, device_ref device,
                                         Allocate from_pool) noexcept {
  try {
    served_device* const from = serve_device(device);
    if (from == nullptr)
      return find_entry(device.ordinal())->refused == refusal::of_all ? passed::over_budget
                                                                      : passed::failed;
    table::entry entry = table::prepare({bytes, device.ordinal()});
    void* const made = from_pool(from->memory);
    try {
      note_range(made, bytes);
      static_cast<void>(allocations_.put(std::move(entry), made));
    } catch (...) {
      from->memory.deallocate_sync(made, in_pool(bytes));
      throw;
    }
    *pointer = made;
    bind_thread();
    return std::nullopt;
  } catch (const out_of_memory&) {
    return c::names_a_budget() ? passed::over_budget : passed::out_of_memory;
  } catch (const std::exception& error) {
    const bool is_capped = c::names_a_budget();
    if (!said_failure_.exchange(true))
      say(is_capped ? "a request is out of memory, because HIP's would not count in the budget"
                    : "a call went to HIP itself",
          error.what());
    return is_capped ? passed::over_budget : passed::failed;
  }
}

void replacement::release_idle() noexcept {
  for_each_pool([](pool& each) { detail::report_exceptions([&] { each.trim_to(0); }); });
  chunk_cache::shared().trim();
}

void replacement::expect_quiet(served_device& of) noexcept {
  if (!of.has_threshold) static_cast<void>(of.release.request_in(settings_.quiet));
}

void replacement::release_when_quiet(served_device& of) noexcept {
  const std::uint64_t allocations = counts_.allocations();
  const bool is_quiet = std::exchange(of.allocations, allocations) == allocations;
  if (is_quiet) {
    try {
      of.memory.trim_to(0, std::chrono::steady_clock::now() + quiet_patience);
      chunk_cache::shared().trim(of.memory.device());
    } catch (const std::exception&) {
      // The worker tries again.
    }
    const mr::pool_usage now = of.memory.usage();
    // Otherwise work still uses memory, or a part of a chunk is in use.
    if (now.reserved_current == now.used_current) return;
  }
  of.tries = is_quiet ? std::min(of.tries + 1, most_doublings) : 0;
  of.release.run_again_in(settings_.quiet * (1U << of.tries));
}

template <typename Call>
int replacement::pass(passed why, Call call) noexcept {
  counts_.count_passed(why);
  if (why == passed::in_child || why == passed::over_budget) return call();
  if (why == passed::out_of_memory) release_idle();
  const int result = call();
  if (result != out_of_memory_code || why == passed::out_of_memory) return result;
  release_idle();
  const int again = call();
  // Clears that of the first call, because the program does not see its failure.
  if (again == 0) detail::clear_last_error();
  return again;
}

int replacement::allocate(const real_calls& real, void** pointer, std::size_t bytes) noexcept {
  std::optional<passed> why = reason_to_pass(pointer, bytes);
  if (!why) {
    try {
      why = serve(pointer, bytes, device_ref::current(),
                  [bytes](pool& from) { return from.allocate_sync(in_pool(bytes)); });
    } catch (const std::exception&) {
      why = passed::failed;  // no device: HIP reports it
    }
  }
  if (why) return pass(*why, [&] { return real.allocate(pointer, asked_of_hip(*why, bytes)); });
  counts_.count_allocation(bytes, false);
  return 0;
}

int replacement::allocate_async(const real_calls& real, void** pointer, std::size_t bytes,
                                stream_ref stream) noexcept {
  std::optional<passed> why = reason_to_pass(pointer, bytes);
  if (!why) why = reason_of_stream(stream);
  if (!why) {
    try {
      const std::optional<device_ref> known = detail::device_of_stream(stream);
      const device_ref device = known ? *known : device_ref::current();
      why =
          has_own_pool(device) ? passed::own_pool : serve(pointer, bytes, device, [&](pool& from) {
            return from.allocate(stream, in_pool(bytes));
          });
    } catch (const std::exception&) {
      why = passed::failed;
    }
  }
  if (why)
    return pass(*why, [&] {
      return real.allocate_async(pointer, asked_of_hip(*why, bytes), stream.get());
    });
  counts_.count_allocation(bytes, true);
  return 0;
}

template <typename Free>
int replacement::free_unknown(const void* pointer, Free free) noexcept {
  if (pointer == nullptr) {
    counts_.count_passed(passed::argument);
  } else if (may_be_ours(pointer) && is_in_a_pool(pointer)) {
    // Some releases of HIP would free the pool's own memory there.
    counts_.count_passed(passed::no_allocation);
    return free(never_allocated());
  } else {
    counts_.count_passed(passed::foreign);
  }
  return free(const_cast<void*>(pointer));
}

int replacement::free(const real_calls& real, void* pointer) noexcept {
  if (is_child_) {
    counts_.count_passed(passed::in_child);
    return may_be_ours(pointer) ? 0 : real.free(pointer);
  }
  const table::entry found = allocations_.take(pointer);
  served_device* const owner = found.empty() ? nullptr : find_device(found.mapped().device);
  if (owner == nullptr)
    return free_unknown(pointer, [&](void* address) { return real.free(address); });
  owner->free(pointer, found.mapped().bytes, settings_.free_waits);
  expect_quiet(*owner);
  counts_.count_free(found.mapped().bytes, false);
  return 0;
}

int replacement::free_async(const real_calls& real, void* pointer, stream_ref stream) noexcept {
  if (is_child_) {
    counts_.count_passed(passed::in_child);
    return may_be_ours(pointer) ? 0 : real.free_async(pointer, stream.get());
  }
  const auto free = [&](void* address) { return real.free_async(address, stream.get()); };
  table::entry found = allocations_.take(pointer);
  served_device* const owner = found.empty() ? nullptr : find_device(found.mapped().device);
  if (owner == nullptr) return free_unknown(pointer, free);
  if (const std::optional<passed> why = reason_of_stream(stream)) {
    // No graph has the memory, or there is no such stream: the table gets its node back.
    try {
      static_cast<void>(allocations_.put(std::move(found), pointer));
    } catch (const std::exception& error) {
      say("an allocation is lost", error.what());
    }
    counts_.count_passed(*why);
    return free(never_allocated());
  }
  const std::size_t bytes = found.mapped().bytes;
  bool is_of_other_device = false;
  if (stream.is_default() || stream.is_per_thread_default()) {
    try {
      is_of_other_device = device_ref::current() != owner->memory.device();
    } catch (const std::exception&) {
      is_of_other_device = true;
    }
  }
  // For a pool a default stream is that of its own device.
  if (is_of_other_device)
    owner->memory.deallocate_sync(pointer, in_pool(bytes));
  else
    owner->memory.deallocate(stream, pointer, in_pool(bytes));
  expect_quiet(*owner);
  counts_.count_free(bytes, true);
  return 0;
}

int replacement::memory_info(const real_calls& real, std::size_t* free,
                             std::size_t* total) noexcept {
  const int result = real.memory_info(free, total);
  if (result != 0 || is_child_ || free == nullptr || total == nullptr) return result;
  detail::report_exceptions([&] {
    const served_device* const own = find_device(device_ref::current().ordinal());
    if (own == nullptr) return;
    const mr::pool_usage now = own->memory.usage();
    const std::size_t idle = now.reserved_current - now.used_current;
    if (const auto left = c::left_of_configured_budget(own->memory.device()))
      *free = std::min(*free, *left);
    *free = std::min(*total, *free + idle);
  });
  return result;
}

bool replacement::may_be_ours(const void* pointer) const noexcept {
  return number(pointer) >= lowest_ && number(pointer) < highest_;
}

void replacement::note_range(const void* pointer, std::size_t bytes) noexcept {
  const std::uintptr_t begin = number(pointer);
  std::uintptr_t low = lowest_;
  while (begin < low && !lowest_.compare_exchange_weak(low, begin)) {
  }
  std::uintptr_t high = highest_;
  while (begin + bytes > high && !highest_.compare_exchange_weak(high, begin + bytes)) {
  }
}

bool replacement::is_in_a_pool(const void* pointer) const noexcept {
  bool is_inside = false;
  for_each_pool([&](const pool& each) { is_inside |= each.contains(pointer); });
  return is_inside;
}

int replacement::address_range(const real_calls& real, void** base, std::size_t* bytes,
                               void* pointer) noexcept {
  if (is_child_ || !may_be_ours(pointer) || !is_in_a_pool(pointer))
    return real.address_range(base, bytes, pointer);
  try {
    std::pair<const void*, allocation> found{pointer, {}};
    // Most queries are for the start of an allocation: find() needs no order of addresses.
    if (const std::optional<allocation> begun = allocations_.find(pointer)) {
      found.second = *begun;
    } else if (const auto last = allocations_.last_not_above(pointer)) {
      found = *last;
    }
    // HIP would report the pool's own range for unallocated memory.
    if (number(pointer) - number(found.first) >= found.second.bytes)
      return real.address_range(base, bytes, never_allocated());
    if (base != nullptr) *base = const_cast<void*>(found.first);
    if (bytes != nullptr) *bytes = found.second.bytes;
    return 0;
  } catch (const std::bad_alloc&) {
    return out_of_memory_code;
  }
}

int replacement::ipc_handle(const real_calls& real, void* handle, void* pointer) noexcept {
  if (is_child_ || !may_be_ours(pointer) || !is_in_a_pool(pointer))
    return real.ipc_handle(handle, pointer);
  counts_.count_refused_handle();
  if (!said_handle_.exchange(true))
    say("memory of the pool has no handle for hipIpcOpenMemHandle or cudaIpcOpenMemHandle",
        "run the program with HIPVMM_PRELOAD=off, or let the shared allocations pass by threshold "
        "or most");
  return real.ipc_handle(handle, never_allocated());
}

void replacement::end_stream(stream_ref stream) noexcept {
  if (is_child_ || stream.is_default() || stream.is_per_thread_default()) return;
  // Pools forget it even if they cannot mark its end: the next stream may have its handle.
  detail::note_stream_end(stream.get());
}

void replacement::write_statistics() noexcept {
  // A child's counts are its parent's until fork(), and would overwrite them.
  if (is_child_ || (settings_.statistics.empty() && settings_.json.empty())) return;
  detail::report_exceptions([&] {
    std::vector<statistics::pool_line> lines;
    for_each_pool([&](const pool& each) {
      // Without a HIP call: HIP may have ended, as CUDA's driver has before this.
      const mr::pool_usage now = each.usage();
      lines.push_back({each.device().ordinal(), now.reserved_current, now.reserved_high,
                       now.used_current, now.used_high});
    });
    if (!settings_.statistics.empty()) write_to(settings_.statistics, counts_.text(lines));
    if (!settings_.json.empty()) write_to(settings_.json, counts_.json(lines));
  });
}

}  // namespace hipvmm::preload
