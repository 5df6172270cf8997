// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/region/retirement.hpp>  // IWYU pragma: export
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "core/error.hpp"
#include "region/backing.hpp"
#include "region/device_work.hpp"
#include "runtime/device.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::detail {

/// Memory to be released when work in flight has ended: mapped chunks that have left their region,
/// an allocation of hipMalloc, or a token in place of memory.
struct retired_item {
  /// `around` outlives the mappings in it. `passed`: an event behind all use of the memory. Without
  /// it, the thread of `device` waits for all work of `using_devices`.
  retired_item(std::shared_ptr<address_range> around, const chunk_cache& destination,
               std::optional<event> passed, device_list using_devices, device_ref device)
      : addresses{std::move(around)},
        cache_state{destination.state_},
        mark{std::move(passed)},
        devices{std::move(using_devices)},
        owner{device} {}

  /// Unmaps, releases and frees. Reports refusals of HIP.
  void release() noexcept;

  std::shared_ptr<address_range> addresses;
  backing_map backings;
  device_allocation allocation;
  std::shared_ptr<chunk_cache::state> cache_state;  // may outlive its cache
  std::optional<event> mark;
  device_list devices;
  device_ref owner;  // its thread waits
  std::shared_ptr<void> token;

  // Set by retirement_queue::add().
  const address_range* range = nullptr;
  std::size_t first = 0;
  std::size_t end = 0;
  std::size_t bytes = 0;
  bool has_token = false;
  std::map<device_ref, std::size_t> of_devices;
  std::uint64_t number = 0;
  [[nodiscard]] std::size_t bytes_of(device_ref device) const noexcept {
    const auto found = of_devices.find(device);
    return found == of_devices.end() ? 0 : found->second;
  }
  std::optional<std::chrono::steady_clock::time_point> refused_since;  // HIP refuses to wait
  bool has_reported = false;                                           // a failure of HIP to wait
};

/// Takes over `backings` and the reference `around` until work has ended, see retired_item. Returns
/// false, nothing done, if no thread can wait, as while the process exits: then the caller waits.
[[nodiscard]] bool retire_backings(backing_map& backings, std::shared_ptr<address_range> around,
                                   const chunk_cache& destination, std::optional<event> passed,
                                   device_list using_devices, device_ref owner) noexcept;

/// Frees `allocation` once `mark` has passed; without a mark, or if HIP does not answer for it,
/// once all work of `devices` has ended. A thread of the library frees it, because hipFree waits
/// for the whole device. Returns false, nothing done, if there is no such thread: then
/// ~device_allocation waits in the caller.
[[nodiscard]] bool retire_allocation(device_allocation& allocation, std::optional<event> mark,
                                     device_list devices) noexcept;
/// The same without a mark; if there is no thread, the caller waits.
void release_when_unused(device_allocation unused, device_list devices = {}) noexcept;

/// Destroys `token` once all present work of `devices` has ended. Returns false, nothing done, if
/// there is no thread.
[[nodiscard]] bool retire_token(std::shared_ptr<void>& token, device_list devices) noexcept;

/// Waits until nothing that was retired is mapped in [offset, offset + bytes) of `range`. Returns
/// at once in a releasing thread. Throws: hip_error if captures forbid the wait for longer than
/// capture_patience.
void finish_retired(const address_range& range, std::size_t offset, std::size_t bytes);

[[nodiscard]] std::size_t retired_bytes(device_ref device);

/// Counts releases of retired memory.
[[nodiscard]] std::uint64_t retired_so_far() noexcept;

/// Counts also gifts of idle holders and ends of wait_by_free(), in any thread.
[[nodiscard]] inline std::uint64_t reclaimed_so_far() noexcept {
  return retired_so_far() + times_given + waits_by_free();
}

/// Tries in turn, until one helps: ask_idle_holders(); a wait for one release of retired memory
/// that may relieve `shortage` (if there is none, a reclaimed_so_far() other than `seen` counts as
/// help); outlast_wait_by_free(); make_room_within_limit(). Returns whether one helped. Returns
/// false at once within without_reclaim. Throws: out_of_memory if captures forbid the waits for
/// longer than capture_patience.
[[nodiscard]] bool reclaim_retired(const out_of_memory& shortage, std::uint64_t seen,
                                   const idle_request& asks = {});

/// Repeats `make` while it runs out of memory, addresses or descriptors, something can be released,
/// and retry_rounds finds that this may help. Releases, in this order: memory that HIP refused to
/// release or to unmap; chunk_cache::shared(), which costs no wait; reclaim_retired(); and, unless
/// a cache has released chunks meanwhile, memory that HIP refused to free, which may wait for a
/// device.
template <typename Make>
auto acquire_with_retry(Make make, const idle_request& asks = {}) -> decltype(make()) {
  std::optional<decltype(make())> made;
  for (retry_rounds rounds; !made;) {
    const std::uint64_t released = cache_registry::times_released();
    const std::uint64_t seen = reclaimed_so_far();
    static_cast<void>(attempt([&] { made.emplace(make()); },
                              [&](const out_of_memory& shortage) {
                                return rounds.may_help(shortage.why(), retired_memory().waiting) &&
                                       (retry_refused_ends(refusals::pass) ||
                                        cache_registry::release_for(shortage, released) ||
                                        reclaim_retired(shortage, seen, asks) ||
                                        cache_registry::times_released() != released ||
                                        retry_refused_ends(refusals::wait));
                              }));
  }
  return std::move(*made);
}

}  // namespace hipvmm::detail
