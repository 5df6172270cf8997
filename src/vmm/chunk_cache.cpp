// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include <atomic>
#include <mutex>
#include <new>

#include <hipvmm/core/error.hpp>
#include "vmm/kept_chunks.hpp"

namespace hipvmm {

using detail::departing_chunks;
using detail::kept_chunks;

namespace {

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
    departing_chunks out;
    for_each([&](kept_chunks& each) { each.drop_down_to(0, out); });
    for (kept_chunks* each = first; each != nullptr;) delete std::exchange(each, each->next);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  template <typename Body>
  void for_each(Body body) const {
    for (kept_chunks* each = first.load(std::memory_order_acquire); each != nullptr;
         each = each->next)
      body(*each);
  }
  [[nodiscard]] kept_chunks* find(device_ref device) const noexcept {
    kept_chunks* each = first.load(std::memory_order_acquire);
    while (each != nullptr && each->device != device) each = each->next;
    return each;
  }
  /// What is held of a device that exists; nullptr when the host's memory is exhausted.
  kept_chunks* find_or_add(device_ref device) noexcept {
    if (kept_chunks* const found = find(device)) return found;
    const std::lock_guard lock{adding};
    if (kept_chunks* const found = find(device)) return found;
    auto* const added = new (std::nothrow) kept_chunks{device, first};
    if (added != nullptr) {
      ++devices;
      first.store(added, std::memory_order_release);
    }
    return added;
  }
  /// Throws: std::invalid_argument when there is no such device.
  kept_chunks& of(device_ref device) {
    if (kept_chunks* const found = find(device)) return *found;
    require_device(device);
    if (kept_chunks* const added = find_or_add(device)) return *added;
    throw std::bad_alloc{};
  }
  /// Gives back to the driver what `wanting` lacks; returns whether anything came back to it since
  /// `seen`, by this thread or another: the same creation may then succeed.
  bool give_back(exhausted resource, const kept_chunks& wanting, std::uint64_t seen) {
    // A thread that finds nothing left to give back waits here for those that are giving it back.
    const std::lock_guard one_at_a_time{giving_back};
    std::size_t bytes = 0;
    {
      departing_chunks out;
      for_each([&](kept_chunks& each) {
        if (&each == &wanting || resource == exhausted::descriptors)
          bytes += each.drop_down_to(0, out);
      });
    }
    if (bytes != 0) ++times_given_back;
    return times_given_back != seen;
  }

  std::atomic<kept_chunks*> first{nullptr};  // the newest; none is removed
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
  kept_chunks& cache = state_->of(device);
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
  kept_chunks* const cache = state_->find_or_add(chunk.device());
  if (cache == nullptr) return;
  if (chunk.shared()) {
    cache->count(&chunk_cache_statistics::dropped);
    return;
  }
  auto kept =
      std::unique_ptr<detail::kept_chunk>{new (std::nothrow) detail::kept_chunk{std::move(chunk)}};
  if (!kept) return;
  departing_chunks out;
  const detail::descriptor_budget budget{state_->devices};
  if (cache->keep(std::move(kept), state_->byte_limit, budget, out))
    cache->drop_unless_harmless(budget, out);
}

std::size_t chunk_cache::trim(std::size_t bytes_to_keep) noexcept {
  departing_chunks out;
  std::size_t bytes = 0;
  state_->for_each([&](kept_chunks& each) { bytes += each.drop_down_to(bytes_to_keep, out); });
  return bytes;
}

std::size_t chunk_cache::trim(device_ref device, std::size_t bytes_to_keep) {
  departing_chunks out;
  return state_->of(device).drop_down_to(bytes_to_keep, out);
}

void chunk_cache::set_byte_limit(std::size_t byte_limit) noexcept {
  state_->byte_limit = byte_limit;
  trim(byte_limit);
}

std::size_t chunk_cache::byte_limit() const noexcept { return state_->byte_limit; }

chunk_cache_statistics chunk_cache::statistics() const noexcept {
  chunk_cache_statistics sum{};
  state_->for_each([&](const kept_chunks& each) {
    const std::lock_guard lock{each.mutex};
    add_up(sum, each.statistics);
  });
  return sum;
}

chunk_cache_statistics chunk_cache::statistics(device_ref device) const {
  const kept_chunks& cache = state_->of(device);
  const std::lock_guard lock{cache.mutex};
  return cache.statistics;
}

}  // namespace hipvmm
