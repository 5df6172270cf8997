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

/// Chunks that have left their region and are still mapped, or an allocation of hipMalloc, together
/// with the work that must be done before they are released.
struct retired_item {
  /// `around` outlives the mappings in it. `passed` is done when nothing uses the chunks any more.
  /// Without it, the thread of `device` waits for all work of `using_devices`.
  retired_item(std::shared_ptr<address_range> around, const chunk_cache& destination,
               std::optional<event> passed, device_list using_devices, device_ref device)
      : addresses{std::move(around)},
        cache_state{destination.state_},
        mark{std::move(passed)},
        devices{std::move(using_devices)},
        owner{device} {}

  /// Unmaps, releases and frees. Refusals of HIP are reported. Then only host memory is left.
  void release() noexcept;

  std::shared_ptr<address_range> addresses;
  backing_map backings;
  device_allocation allocation;
  // Of a cache that may be destroyed; its chunks are then released with the last reference.
  std::shared_ptr<chunk_cache::state> cache_state;
  std::optional<event> mark;
  device_list devices;
  device_ref owner;             // its thread waits
  std::shared_ptr<void> token;  // in place of memory

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
  // Since when HIP refuses to wait, as it does during captures.
  std::optional<std::chrono::steady_clock::time_point> refused_since;
  bool has_reported = false;  // a failure of HIP to wait
};

/// Takes over `backings`, and has a thread release them, and the addresses if it is their last
/// owner: see retired_item. If there are no backings, only the addresses wait.
/// Returns false, nothing done, if that is impossible, such as while the process exits: the caller
/// must then wait itself.
[[nodiscard]] bool retire_backings(backing_map& backings, std::shared_ptr<address_range> around,
                                   const chunk_cache& destination, std::optional<event> passed,
                                   device_list using_devices, device_ref owner) noexcept;

/// Frees `allocation` once `mark` has passed; without a mark, or if HIP does not answer for it,
/// once all work of `devices` has ended. A thread of the library does it, because hipFree waits for
/// the whole device. Returns false, nothing done, if there is no such thread: then
/// ~device_allocation waits in the caller.
[[nodiscard]] bool retire_allocation(device_allocation& allocation, std::optional<event> mark,
                                     device_list devices) noexcept;
/// The same without a mark; if there is no thread, the caller waits.
void release_when_unused(device_allocation unused, device_list devices = {}) noexcept;

/// Destroys `token` once all present work of `devices` has finished. Returns false, nothing done,
/// if no thread waits for that.
[[nodiscard]] bool retire_token(std::shared_ptr<void>& token, device_list devices) noexcept;

/// Waits until nothing that was retired is mapped in [offset, offset + bytes) of `range`. Throws:
/// hip_error if captures forbid the wait for longer than capture_patience.
void finish_retired(const address_range& range, std::size_t offset, std::size_t bytes);

[[nodiscard]] std::size_t retired_bytes(device_ref device);

/// How often a piece of retired memory was released.
[[nodiscard]] std::uint64_t retired_so_far() noexcept;

/// The same, plus the times that idle holders gave memory, to any thread, and that wait_by_free()
/// ended.
[[nodiscard]] inline std::uint64_t reclaimed_so_far() noexcept {
  return retired_so_far() + times_given + waits_by_free();
}

/// Has idle holders give memory for `shortage` (ask_idle_holders()). If none does, waits until a
/// piece of retired memory that may relieve it has been released. If there is none, returns true if
/// reclaimed_so_far() is no longer `seen`; else waits for a wait_by_free() under way, or has other
/// processes make room within a limit on chunks (make_room_within_limit()). Returns whether any of
/// this gave memory. Throws: out_of_memory if captures forbid the waits for longer than
/// capture_patience.
[[nodiscard]] bool reclaim_retired(const out_of_memory& shortage, std::uint64_t seen,
                                   const idle_request& asks = {});

/// Returns the result of `make`. Repeats `make` while it runs out of memory, addresses or
/// descriptors, something can be released, and retry_rounds finds that this may help. The order:
/// 1) memory that HIP refused to release or to unmap;
/// 2) the chunks in chunk_cache::shared(), which costs no wait;
/// 3) idle memory of other holders, for the taker that `asks` names;
/// 4) retired memory; nothing more if a cache released chunks since the try, as it does if a holder
///   without idle chunks frees the addresses that pinned them;
/// 5) memory that HIP refused to free, and whose end may wait for a device.
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
