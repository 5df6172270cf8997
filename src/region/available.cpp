// SPDX-License-Identifier: MIT
#include "region/available.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/descriptors.hpp"
#include "region/retirement.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::detail {
namespace {

// Parts of the remaining addresses, beside one for each reservation of the library.
constexpr std::size_t parts_for_needed = 3;
constexpr std::size_t parts_for_wanted = 64;
constexpr std::size_t most_tried = std::size_t{64} * 1024 * GiB;  // half of a process's addresses

// The most addresses seen so far, free and reserved.
std::atomic<std::size_t> known_bytes{0};

/// Half of a limit (ulimit -v): other threads need addresses during a trial.
std::size_t most_to_try() noexcept {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most_tried;
  return std::min<std::size_t>(most_tried, limit.rlim_cur / 2);
}

void note_known(std::size_t bytes) noexcept {
  std::size_t known = known_bytes;
  while (known < bytes && !known_bytes.compare_exchange_weak(known, bytes)) {
  }
}

/// Bytes that can be reserved, as far as known; the search ends at `enough`.
std::size_t bytes_left(std::size_t enough, std::size_t unit) {
  const std::size_t held = all_reserved().bytes;
  const auto known_left = [&] { return known_bytes - std::min<std::size_t>(known_bytes, held); };
  if (known_left() >= enough) return known_left();
  // Twice as many, so that the next caller need not try again.
  std::size_t tried = std::min(add_bytes(enough, enough), most_to_try());
  for (tried = align_down(tried, unit); tried > unit && !can_reserve(tried);)
    tried = align_down(tried / 2, unit);
  // Upwards again by halved steps: the last refused size may be only a little too large.
  for (std::size_t step = tried / 2; tried < enough && step > tried / 16; step /= 2)
    if (const std::size_t more = align_down(tried + step, unit);
        more <= most_to_try() && can_reserve(more))
      tried = more;
  note_known(add_bytes(held, tried));
  return tried;
}

std::size_t times(std::size_t bytes, std::size_t count) noexcept {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return bytes > most / 2 / count ? most / 2 : bytes * count;
}

std::size_t share_now(std::size_t needed, std::size_t wanted, std::size_t unit) {
  const std::size_t count = all_reserved().count;
  const std::size_t for_needed = count + parts_for_needed;
  const std::size_t for_wanted = count + parts_for_wanted;
  const std::size_t enough = std::max(times(needed, for_needed), times(wanted, for_wanted));
  std::size_t left = bytes_left(add_bytes(enough, enough / 7 + unit), unit);
  left -= left / 8;
  const std::size_t share = std::max(std::min(needed, left / for_needed), left / for_wanted);
  return std::min(wanted, std::max(align_down(share, unit), unit));
}

}  // namespace

std::size_t address_share(device_ref device, std::size_t needed, std::size_t wanted) {
  // HIP takes the granularity of a reservation from device 0. Both are powers of two.
  const std::size_t unit =
      std::max(granularity_of(device_ref{0}).recommended, granularity_of(device).recommended);
  for (;;) {
    const std::uint64_t seen = reclaimed_so_far();
    const std::size_t share = share_now(needed, wanted, unit);
    if (share >= needed || retired_memory().waiting == 0) return share;
    const out_of_memory short_of{exhausted::addresses, device.ordinal(), needed, share, {}};
    if (!reclaim_retired(short_of, seen)) return share;
  }
}

creatable_memory creatable(device_ref device, std::size_t least_chunk) {
  const memory_strategy strategy{device};
  // Not counted: cached and retired memory that addresses pin.
  const bool returns = !strategy.pins_memory;
  const chunk_cache_statistics kept = chunk_cache::shared().statistics(device);
  const std::size_t waiting = returns ? add_bytes(kept.bytes, retired_bytes(device)) : 0;
  const std::size_t given = std::min(device.free_memory(), chunk_bytes_left(device));
  creatable_memory result{add_bytes(given, waiting), std::numeric_limits<std::size_t>::max()};
  if (const std::size_t each = strategy.descriptors_per_chunk; each != 0) {
    constexpr std::size_t for_call = 4;  // as check_resources()
    const std::size_t limit = descriptor_limit();
    const std::size_t enough = add_bytes((result.bytes / least_chunk + 1) * each, for_call);
    const std::size_t left = free_descriptors(limit, std::min(limit, enough));
    result.chunks = (left - std::min(left, for_call)) / each + (returns ? kept.chunks : 0);
  }
  return result;
}

}  // namespace hipvmm::detail
