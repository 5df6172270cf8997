// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <utility>

#include "base/failure.hpp"
#include "memory/address_map.hpp"
#include "memory/managed_pages.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {

void address_map::register_host(address start, std::size_t bytes, int device, unsigned flags,
                                bool writable) {
  constexpr device_set all_devices = ~device_set{0};
  auto made = std::make_unique<tracked_range>(
      tracked_range{memory_kind::registration, device, start, bytes, bytes, flags, all_devices,
                    writable ? all_devices : device_set{0}, nullptr, false, 0, 0,
                    std::make_shared<managed_pages>(start, bytes)});
  require(bytes <= std::numeric_limits<address>::max() - start);
  const address end = start + bytes;
  const guard lock{mutex_};
  if (knows_any(start, end)) {
    const tracked_range* const first = range_at(start);
    // AMD does not count registrations: one call ends all that began here.
    const bool is_again = first != nullptr && first->kind == memory_kind::registration &&
                          first->start == start && bytes <= first->bytes;
    if (is_again && rules_.registered_again == second_registration::taken) return;
    const auto next = ranges_.upper_bound(start);
    const tracked_range* const found =
        first != nullptr || next == ranges_.end() ? first : next->second.get();
    const bool pinned = found != nullptr && found->start < end && is_pinned(*found);
    throw failure{pinned ? hipErrorHostMemoryAlreadyRegistered : hipErrorInvalidValue};
  }
  ranges_.emplace(start, std::move(made));
  ++live(memory_kind::registration);
}

// mmap has just returned these addresses, so the owner of memory registered there has unmapped it
// without a call of HIP.
void address_map::forget_stale(guard& lock, address start, std::size_t bytes) {
  for (;;) {
    const auto after = ranges_.lower_bound(start + bytes);
    if (after == ranges_.begin()) return;
    tracked_range* const last = std::prev(after)->second.get();
    if (last->kind != memory_kind::registration || last->start + last->bytes <= start) return;
    if (last->changing) {
      changed_.wait(lock);
      continue;
    }
    retire(lock, {&last, 1});
    ranges_.erase(last->start);
    --live(memory_kind::registration);
  }
}

}  // namespace hipvmm::host_provider
