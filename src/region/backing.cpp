// SPDX-License-Identifier: MIT
#include "region/backing.hpp"

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "core/check.hpp"
#include "core/error.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/unmap_range.hpp"

namespace hipvmm {
namespace {

std::atomic<std::uint64_t> waits{0};

}  // namespace

void detail::wait_until(moment when) noexcept {
  if (when <= std::chrono::steady_clock::now()) return;
  waits.fetch_add(1, std::memory_order_relaxed);
  std::this_thread::sleep_until(when);
}

std::uint64_t detail::waits_so_far() noexcept { return waits.load(std::memory_order_relaxed); }

void downward_unmaps::add(mapping& next) {
  if (next.empty()) return;
  if (count_ == run_.size() || (count_ != 0 && !range_.may_unmap_together(next, *run_[count_ - 1])))
    finish();
  run_[count_++] = &next;
  if (!range_.unmaps_many()) finish();
}

void downward_unmaps::finish() {
  const std::size_t count = std::exchange(count_, 0);
  const auto unmap = [&] { detail::unmap_together(run_.data(), count); };
  try {
    if (count >= fewest && !detail::refusal_of(hipErrorInvalidValue, unmap)) return;
  } catch (const std::exception&) {
    if (single_ == alone::unmapped) throw;
    detail::report_caught();
  }
  if (single_ == alone::left) return;
  for (std::size_t i = 0; i < count; ++i) run_[i]->unmap();
}

void unmap_all(backing_map& backings, const address_range& range) noexcept {
  unmap_runs(
      backings, [](auto& entry) -> mapping& { return entry.second.map; }, range);
  for (auto& entry : backings) entry.second.unmap_in(range);
}

void recycle_all(backing_map& backings, std::shared_ptr<address_range> range,
                 chunk_cache& cache) noexcept {
  unmap_all(backings, *range);
  // Leaves out chunks that are still mapped: nobody may use them.
  for (auto at = backings.begin(); at != backings.end();) {
    backing& one = at->second;
    const bool is_mapped = !one.map.empty() || range->refused().take_if_mapped(one.chunk);
    at = is_mapped ? backings.erase(at) : std::next(at);
  }
  // Other owners wait for use_count() to fall, and then expect the chunks in the cache.
  if (range.use_count() == 1) range.reset();
  for (auto& entry : backings) cache.recycle(std::move(entry.second.chunk));
  backings.clear();
}

void release_all(backing_map& backings, const address_range& range, chunk_cache& cache) noexcept {
  unmap_all(backings, range);
  for (auto& entry : backings) {
    backing& one = entry.second;
    if (one.map.empty() && !range.refused().take_if_mapped(one.chunk))
      detail::cache_registry::keep_pinned(cache, one.chunk);
  }
  backings.clear();
}

}  // namespace hipvmm
