// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include <hipvmm/core/device_allocation.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/event.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/retirement.hpp>  // IWYU pragma: export
#include "vmm/device_work.hpp"
#include "vmm/kept_memory.hpp"
#include "vmm/region_state.hpp"

namespace hipvmm::detail {

/// Chunks that have left their region and are still mapped, or the allocation of a region that has
/// none, and what must have passed before they are given back.
struct retired_chunks {
  /// `around` outlives the mappings in it. `passed`: done when nothing uses the chunks any more;
  /// without one, all work of `using_devices` must have finished.
  retired_chunks(std::shared_ptr<address_range> around, const chunk_cache& destination,
                 std::optional<event> passed, device_list using_devices)
      : addresses{std::move(around)},
        cache_state{destination.state_},
        mark{std::move(passed)},
        devices{std::move(using_devices)} {}

  /// For an allocation, which the caller puts in.
  retired_chunks(std::optional<event> passed, device_list using_devices)
      : retired_chunks{nullptr, chunk_cache::shared(), std::move(passed),
                       std::move(using_devices)} {}

  /// Unmaps, releases and frees; what HIP refuses is reported. Nothing but host memory is left
  /// then.
  void give_back() noexcept;

  std::shared_ptr<address_range> addresses;
  backing_map backings;
  device_allocation allocation;
  // Of a cache that may be gone, which then releases its chunks with the last that refers to it.
  std::shared_ptr<chunk_cache::state> cache_state;
  std::optional<event> mark;
  device_list devices;
  // Instead of memory: destroyed when the work has finished.
  std::shared_ptr<void> token;

  // Set by retire(), for what others may ask while the chunks are being given back.
  const address_range* range = nullptr;
  std::size_t first = 0;
  std::size_t end = 0;
  std::size_t bytes = 0;
  bool has_token = false;
  std::optional<device_ref> owner;
  std::uint64_t number = 0;
  // Since when captures forbid to wait for what uses the chunks.
  std::optional<std::chrono::steady_clock::time_point> refused_since;
};

/// Takes over the one element of `one`, which holds something, to give that back behind the
/// caller's back. Returns false and leaves `one` alone where that cannot be, such as while the
/// process exits: the caller must then wait itself.
[[nodiscard]] bool retire(std::list<retired_chunks>& one) noexcept;

/// Frees `given_up` when `mark` and all work of `devices` have passed, in a thread of the library,
/// for hipFree waits for the whole device. Returns false, nothing done, where there is none to do
/// it: then ~device_allocation waits in the caller.
[[nodiscard]] bool retire_allocation(device_allocation& given_up, std::optional<event> mark,
                                     device_list devices) noexcept;
/// Frees what nothing but work of `devices` uses, in the same way or in the caller.
void give_back(device_allocation unused, device_list devices = {}) noexcept;

/// Destroys `token` when all work that `devices` have now has finished. Returns false, nothing
/// done, where no thread waits for that.
[[nodiscard]] bool retire_token(std::shared_ptr<void>& token, device_list devices) noexcept;

/// Waits until nothing that was retired is mapped in [offset, offset + bytes) of `range`.
/// Throws: hip_error where captures forbid the wait for longer than capture_patience.
void finish_retired(const address_range& range, std::size_t offset, std::size_t bytes);

/// How many have been given back so far.
[[nodiscard]] std::uint64_t retired_so_far() noexcept;

/// Waits until something that was retired and may relieve `shortage` has been given back. Returns
/// at once, true when that has been since retired_so_far() said `seen`, false when nothing waits.
/// Throws: out_of_memory where captures forbid the waits for longer than capture_patience.
[[nodiscard]] bool reclaim_retired(const out_of_memory& shortage, std::uint64_t seen);

/// While one lives, reclaim_retired() of its thread returns false at once: the caller holds a lock.
class without_reclaim {
 public:
  without_reclaim() noexcept;
  ~without_reclaim();
  without_reclaim(const without_reclaim&) = delete;
  without_reclaim& operator=(const without_reclaim&) = delete;

 private:
  bool before_;
};

/// The result of `make`, which is repeated as long as it runs out of memory, addresses or
/// descriptors and memory comes back: first what chunk_cache::shared() keeps, which costs no wait,
/// then what is retired.
template <typename Make>
auto make_with_reclaim(Make make) -> decltype(make()) {
  for (;;) {
    const std::uint64_t released = kept_memory::times_released();
    const std::uint64_t seen = retired_so_far();
    try {
      return make();
    } catch (const out_of_memory& shortage) {
      if (kept_memory::release_for(shortage, released)) continue;
      if (!reclaim_retired(shortage, seen)) throw;
    }
  }
}

}  // namespace hipvmm::detail
