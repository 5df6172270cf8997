// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <compare>
#include <mutex>
#include <new>

#include <hipvmm/core/error.hpp>
#include "core/descriptors.hpp"

namespace hipvmm {
namespace {

namespace intrusive = boost::intrusive;

/// Where a kept chunk of a device stands: by what it is, then in the order of creation.
struct position {
  handle_type shareable;
  std::size_t bytes;
  std::uint64_t creation_index;

  friend auto operator<=>(const position&, const position&) = default;
};

struct kept_chunk : intrusive::set_base_hook<>, intrusive::list_base_hook<> {
  explicit kept_chunk(physical_chunk&& kept) noexcept : chunk{std::move(kept)} {}
  physical_chunk chunk;
};

struct position_of {
  using type = position;
  position operator()(const kept_chunk& kept) const {
    const physical_chunk& chunk = kept.chunk;
    return {chunk.shareable(), chunk.bytes(), chunk.creation_index()};
  }
};

using by_position = intrusive::set<kept_chunk, intrusive::key_of_value<position_of>>;
using by_age = intrusive::list<kept_chunk>;

/// Chunks on their way back to the driver: released when it dies, which must be outside the lock.
class departing {
 public:
  departing() = default;
  departing(const departing&) = delete;
  departing& operator=(const departing&) = delete;
  ~departing() { chunks_.clear_and_dispose(std::default_delete<kept_chunk>{}); }
  void add(kept_chunk& kept) { chunks_.push_back(kept); }

 private:
  by_age chunks_;
};

/// Kept chunks may spend half of the process's descriptors, if they cost any; the other half is for
/// chunks in use and for the program's own files, which fail less gracefully. Each device has an
/// equal share, so that none pushes out what another holds.
struct descriptor_budget {
  std::size_t devices;
  std::size_t limit = detail::descriptor_limit();
  std::size_t share = limit / 2 / devices;
};

/// What is held of one device. What follows the mutex is guarded by it; what precedes it never
/// changes, and stands apart so that threads of other devices can pass by without waiting for it.
struct device_cache {
  device_cache(device_ref owner, device_cache* following) noexcept
      : device{owner}, next{following} {}

  std::unique_ptr<kept_chunk> take(std::size_t bytes, handle_type shareable) {
    const std::lock_guard lock{mutex};
    const auto at = chunks.lower_bound(position{shareable, bytes, 0});
    if (at == chunks.end() || at->chunk.bytes() != bytes || at->chunk.shareable() != shareable) {
      ++statistics.misses;
      return nullptr;
    }
    ++statistics.hits;
    return std::unique_ptr<kept_chunk>{&take_out(*at)};
  }
  /// Returns whether what is held now may cost more descriptors than the budget has.
  bool keep(std::unique_ptr<kept_chunk> kept, const std::atomic<std::size_t>& limit,
            const descriptor_budget& budget, departing& out) {
    const std::lock_guard lock{mutex};
    // Read under the lock: who lowers it trims afterwards, and must not miss this chunk.
    const std::size_t byte_limit = limit;
    if (kept->chunk.bytes() > byte_limit) {
      ++statistics.dropped;
      out.add(*kept.release());
      return false;
    }
    statistics.bytes += kept->chunk.bytes();
    ++statistics.chunks;
    chunks.insert(*kept);
    ages.push_back(*kept.release());
    while (statistics.bytes > byte_limit) drop(ages.front(), out);
    statistics.peak_bytes = std::max(statistics.peak_bytes, statistics.bytes);
    statistics.peak_chunks = std::max(statistics.peak_chunks, statistics.chunks);
    if (budget.share != share) share = harmless = budget.share;
    return statistics.chunks > harmless;
  }
  /// Counts the process's descriptors, and drops what exceeds the device's share if half are open.
  void drop_unless_harmless(const descriptor_budget& budget, departing& out) {
    const std::size_t open = budget.limit - detail::free_descriptors(budget.limit, budget.limit);
    const std::lock_guard lock{mutex};
    if (open < budget.limit / 2) {
      // Even if each chunk more costs one, and other devices do the same, half stays the bound.
      harmless = statistics.chunks + (budget.limit / 2 - open) / budget.devices;
      return;
    }
    harmless = budget.share;
    // An eighth more than need be, so that not every recycled chunk leads to a count.
    while (statistics.chunks > budget.share - budget.share / 8) drop(ages.front(), out);
  }
  /// Drops what exceeds `bytes_to_keep`, those kept longest first; returns its bytes.
  std::size_t drop_down_to(std::size_t bytes_to_keep, departing& out) {
    const std::lock_guard lock{mutex};
    const std::size_t before = statistics.bytes;
    while (statistics.bytes > bytes_to_keep) drop(ages.front(), out);
    return before - statistics.bytes;
  }
  void count(std::size_t chunk_cache_statistics::*what) {
    const std::lock_guard lock{mutex};
    ++(statistics.*what);
  }

  const device_ref device;
  device_cache* const next;
  alignas(64) mutable std::mutex mutex;  // a cache line of its own
  by_position chunks;
  by_age ages;
  chunk_cache_statistics statistics{};
  std::size_t share = 0;     // of the budget, when it was last looked at
  std::size_t harmless = 0;  // so many chunks are known not to spend it

 private:
  kept_chunk& take_out(kept_chunk& kept) {
    chunks.erase(chunks.iterator_to(kept));
    ages.erase(ages.iterator_to(kept));
    statistics.bytes -= kept.chunk.bytes();
    --statistics.chunks;
    return kept;
  }
  void drop(kept_chunk& kept, departing& out) {
    out.add(take_out(kept));
    ++statistics.dropped;
  }
};

void add_up(chunk_cache_statistics& sum, const chunk_cache_statistics& each) {
  using figures = chunk_cache_statistics;
  for (const auto figure :
       {&figures::bytes, &figures::chunks, &figures::peak_bytes, &figures::peak_chunks,
        &figures::hits, &figures::misses, &figures::refused, &figures::dropped})
    sum.*figure += each.*figure;
}

}  // namespace

struct chunk_cache::state {
  explicit state(std::size_t limit) noexcept : byte_limit{limit} {}
  ~state() {
    departing out;
    for_each([&](device_cache& each) { each.drop_down_to(0, out); });
    for (device_cache* each = first; each != nullptr;) delete std::exchange(each, each->next);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  template <typename Body>
  void for_each(Body body) const {
    for (device_cache* each = first.load(std::memory_order_acquire); each != nullptr;
         each = each->next)
      body(*each);
  }
  [[nodiscard]] device_cache* find(device_ref device) const noexcept {
    device_cache* each = first.load(std::memory_order_acquire);
    while (each != nullptr && each->device != device) each = each->next;
    return each;
  }
  /// What is held of a device that exists; nullptr when the host's memory is exhausted.
  device_cache* find_or_add(device_ref device) noexcept {
    if (device_cache* const found = find(device)) return found;
    const std::lock_guard lock{adding};
    if (device_cache* const found = find(device)) return found;
    auto* const added = new (std::nothrow) device_cache{device, first};
    if (added != nullptr) {
      ++devices;
      first.store(added, std::memory_order_release);
    }
    return added;
  }
  /// Throws: std::invalid_argument when there is no such device.
  device_cache& of(device_ref device) {
    if (device_cache* const found = find(device)) return *found;
    require_device(device);
    if (device_cache* const added = find_or_add(device)) return *added;
    throw std::bad_alloc{};
  }
  /// Gives back to the driver what `wanting` lacks; returns whether anything came back to it since
  /// `seen`, by this thread or another: the same creation may then succeed.
  bool give_back(exhausted resource, const device_cache& wanting, std::uint64_t seen) {
    // A thread that finds nothing left to give back waits here for those that are giving it back.
    const std::lock_guard one_at_a_time{giving_back};
    std::size_t bytes = 0;
    {
      departing out;
      for_each([&](device_cache& each) {
        if (&each == &wanting || resource == exhausted::descriptors)
          bytes += each.drop_down_to(0, out);
      });
    }
    if (bytes != 0) ++times_given_back;
    return times_given_back != seen;
  }

  std::atomic<device_cache*> first{nullptr};  // the newest; none is removed
  std::atomic<std::size_t> devices{0};
  std::atomic<std::size_t> byte_limit;
  std::atomic<std::uint64_t> times_given_back{0};
  std::mutex adding;
  // Recursive: a release that fails tells the error handler, which may acquire.
  std::recursive_mutex giving_back;
};

chunk_cache& chunk_cache::shared() {
  // Never destroyed: regions of static storage may return chunks while the process exits.
  static auto& cache = *new chunk_cache{};
  return cache;
}

chunk_cache::chunk_cache(std::size_t byte_limit) : state_{std::make_shared<state>(byte_limit)} {}

chunk_cache::chunk_cache(std::shared_ptr<state> shared) noexcept : state_{std::move(shared)} {}

chunk_cache::~chunk_cache() = default;

physical_chunk chunk_cache::acquire(device_ref device, std::size_t bytes, handle_type shareable) {
  device_cache& cache = state_->of(device);
  if (const auto kept = cache.take(bytes, shareable)) return std::move(kept->chunk);
  while (true) {
    const std::uint64_t seen = state_->times_given_back;
    try {
      return physical_chunk{device, bytes, shareable};
    } catch (const out_of_memory& error) {
      if (state_->give_back(error.resource(), cache, seen)) continue;
      cache.count(&chunk_cache_statistics::refused);
      throw;
    }
  }
}

void chunk_cache::recycle(physical_chunk chunk) noexcept {
  if (chunk.empty()) return;
  device_cache* const cache = state_->find_or_add(chunk.device());
  if (cache == nullptr) return;
  if (chunk.shared()) {
    cache->count(&chunk_cache_statistics::dropped);
    return;
  }
  auto kept = std::unique_ptr<kept_chunk>{new (std::nothrow) kept_chunk{std::move(chunk)}};
  if (!kept) return;
  departing out;
  const descriptor_budget budget{state_->devices};
  if (cache->keep(std::move(kept), state_->byte_limit, budget, out))
    cache->drop_unless_harmless(budget, out);
}

std::size_t chunk_cache::trim(std::size_t bytes_to_keep) noexcept {
  departing out;
  std::size_t bytes = 0;
  state_->for_each([&](device_cache& each) { bytes += each.drop_down_to(bytes_to_keep, out); });
  return bytes;
}

std::size_t chunk_cache::trim(device_ref device, std::size_t bytes_to_keep) {
  departing out;
  return state_->of(device).drop_down_to(bytes_to_keep, out);
}

void chunk_cache::set_byte_limit(std::size_t byte_limit) noexcept {
  state_->byte_limit = byte_limit;
  trim(byte_limit);
}

std::size_t chunk_cache::byte_limit() const noexcept { return state_->byte_limit; }

chunk_cache_statistics chunk_cache::statistics() const noexcept {
  chunk_cache_statistics sum{};
  state_->for_each([&](const device_cache& each) {
    const std::lock_guard lock{each.mutex};
    add_up(sum, each.statistics);
  });
  return sum;
}

chunk_cache_statistics chunk_cache::statistics(device_ref device) const {
  const device_cache& cache = state_->of(device);
  const std::lock_guard lock{cache.mutex};
  return cache.statistics;
}

}  // namespace hipvmm
