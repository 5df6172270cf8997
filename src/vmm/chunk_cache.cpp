// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/background_task.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "vmm/cached_chunks.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm {

using detail::cached_chunks;
using detail::evicted_chunks;
using clock = std::chrono::steady_clock;

namespace {

void add_up(chunk_cache_statistics& sum, const chunk_cache_statistics& each) {
  using figures = chunk_cache_statistics;
  for (const auto figure :
       {&figures::bytes, &figures::chunks, &figures::peak_bytes, &figures::peak_chunks,
        &figures::hits, &figures::misses, &figures::refused, &figures::dropped, &figures::expired})
    sum.*figure += each.*figure;
}

/// Clamped, because the clock's unit holds fewer milliseconds.
clock::duration age_of(std::chrono::milliseconds retention) noexcept {
  constexpr std::chrono::milliseconds longest = std::chrono::hours{24 * 365 * 100};
  if (retention == chunk_cache::forever) return clock::duration::max();
  return std::clamp(retention, std::chrono::milliseconds::zero(), longest);
}

// Made at the start, because it allocates and noexcept functions use it.
[[maybe_unused]] const chunk_cache& shared_at_start = chunk_cache::shared();

}  // namespace

struct chunk_cache::state {
  enum class lifetime { of_owner, of_process };
  state(std::size_t limit, std::chrono::milliseconds retention, lifetime ends) noexcept
      : ends_with{ends}, bounds{limit, age_of(retention)} {}
  ~state() {
    if (is_of_parent()) return;
    decay.cancel_or_wait();
    evicted_chunks out;
    for_each([&](cached_chunks& each) { each.drop_all(out); });
    if (ends_with == lifetime::of_owner) out.leave_pinned();
    for (cached_chunks* each = first; each != nullptr;) delete std::exchange(each, each->next);
  }
  state& operator=(state&&) = delete;

  /// Whether this is a child of fork() of the process that used the cache first. The program's
  /// start makes the shared cache, and may fork before HIP's first call.
  [[nodiscard]] bool is_of_parent() const noexcept {
    bool result = false;
    for_each([&](const cached_chunks& each) { result = result || each.process.is_of_parent(); });
    return result;
  }
  template <typename Body>
  void for_each(Body body) const {
    for (cached_chunks* each = first.load(std::memory_order_acquire); each != nullptr;
         each = each->next)
      body(*each);
  }
  [[nodiscard]] cached_chunks* find(device_ref device) const noexcept {
    cached_chunks* each = first.load(std::memory_order_acquire);
    while (each != nullptr && each->device != device) each = each->next;
    return each;
  }
  /// Pre: the device exists. Returns nullptr without memory of the host.
  cached_chunks* find_or_add(device_ref device) noexcept {
    if (cached_chunks* const found = find(device)) return found;
    const std::lock_guard lock{adding};
    if (cached_chunks* const found = find(device)) return found;
    auto* const added = new (std::nothrow) cached_chunks{device, first};
    if (added != nullptr) {
      ++devices;
      first.store(added, std::memory_order_release);
    }
    return added;
  }
  cached_chunks& of(device_ref device) {
    if (cached_chunks* const found = find(device)) return *found;
    require_device(device);
    if (cached_chunks* const added = find_or_add(device)) return *added;
    throw std::bad_alloc{};
  }
  /// Releases what `choose(cached_chunks&, evicted_chunks&)` drops, and returns the sum of its
  /// results. A thread that finds nothing left waits here for those that release.
  template <typename Choose>
  std::size_t release(Choose choose) {
    if (is_of_parent()) return 0;
    // The error handler may wait for a thread that waits here.
    const detail::callbacks_wait until_unlocked;
    const std::lock_guard one_at_a_time{releasing};
    std::size_t bytes = 0;
    {
      evicted_chunks out;
      for_each([&](cached_chunks& each) { bytes += choose(each, out); });
    }
    if (bytes != 0) ++times_released;
    return bytes;
  }
  bool release_for(const shortage& why, std::uint64_t seen) {
    bool helps = false;
    release([&](cached_chunks& each, evicted_chunks& out) {
      if (!detail::is_relieved_by(why, each.device.ordinal())) return std::size_t{0};
      helps = true;
      return each.drop_down_to(0, out);
    });
    return helps && times_released != seen;
  }
  void release_expired(clock::time_point now, std::size_t most) {
    const auto age = bounds.longest();
    if (!age) return;
    const clock::time_point limit = now - *age;
    release([&](cached_chunks& each, evicted_chunks& out) {
      return each.drop_expired(limit, most, out);
    });
  }
  [[nodiscard]] std::optional<clock::time_point> oldest() const {
    std::optional<clock::time_point> first_since;
    for_each([&](const cached_chunks& each) {
      const auto since = each.oldest();
      if (since && (!first_since || *since < *first_since)) first_since = since;
    });
    return first_since;
  }
  /// A few chunks at a time, because other tasks wait for the worker.
  void release_some_expired() {
    constexpr std::size_t most_of_each_device = 16;
    constexpr int wakes_per_retention = 8;
    release_expired(clock::now(), most_of_each_device);
    const auto since = oldest();
    const auto age = bounds.longest();
    if (!since || !age) return;
    const clock::duration left = *since + *age - clock::now();
    const clock::duration delay =
        left <= left.zero() ? left.zero() : std::max(left, *age / wakes_per_retention);
    decay.run_again_in(std::chrono::ceil<std::chrono::microseconds>(delay));
  }
  /// Lets kept chunks expire; without a thread for that, releases all.
  void start_decay() {
    if (!bounds.longest() || decay.request()) return;
    release([](cached_chunks& each, evicted_chunks& out) { return each.drop_down_to(0, out); });
  }

  void keep(std::unique_ptr<detail::kept_chunk> kept, cached_chunks& of) {
    using outcome = cached_chunks::outcome;
    evicted_chunks out;
    const detail::descriptor_budget budget{devices};
    const outcome came = of.keep(std::move(kept), bounds, budget, out);
    if (came == outcome::kept_uncounted) of.drop_unless_harmless(budget, out);
    if (came != outcome::dropped) start_decay();
  }
  void release_unpinned() {
    release([this](cached_chunks& each, evicted_chunks& out) {
      return each.drop_unpinned(bounds, out);
    });
    if (oldest()) start_decay();
  }

  struct pinning_caches {
    std::mutex mutex;
    std::vector<std::weak_ptr<state>> states;
  };
  static void list(const std::shared_ptr<state>& one) noexcept {
    if (one->is_listed) return;
    detail::report_exceptions([&one] {
      auto& [mutex, states] = detail::only<pinning_caches>();
      const std::lock_guard lock{mutex};
      if (one->is_listed) return;
      std::erase_if(states, [](const auto& each) { return each.expired(); });
      states.push_back(one);
      one->is_listed = true;
    });
  }
  /// Has the shared cache release all before HIP ends; false if it cannot.
  static bool ends_at_exit() {
    // A child of fork() has this handler and must not call HIP.
    static const ::pid_t process = ::getpid();
    static const bool registered =
        std::atexit([]() noexcept {
          if (::getpid() != process) return;
          state& all = *shared().state_;
          all.bounds.keeps_pinned = false;
          all.bounds.bytes = 0;
          all.release([](cached_chunks& each, evicted_chunks& out) { return each.drop_all(out); });
        }) == 0;
    return registered;
  }

  const lifetime ends_with;
  std::atomic<cached_chunks*> first{nullptr};  // the newest; none is removed
  std::atomic<std::size_t> devices{0};
  detail::kept_bounds bounds;
  std::atomic<std::uint64_t> times_released{0};
  std::atomic<bool> is_listed{false};
  std::mutex adding;
  std::mutex releasing;
  detail::background_task decay{[this] { release_some_expired(); }};
};

chunk_cache& chunk_cache::shared() {
  // Never destroyed: regions of static storage may return chunks while the process exits.
  static auto& cache = *new chunk_cache{
      std::make_shared<state>(std::numeric_limits<std::size_t>::max(), std::chrono::seconds{1},
                              state::lifetime::of_process)};
  return cache;
}

chunk_cache::chunk_cache(std::size_t byte_limit, std::chrono::milliseconds retention)
    : state_{std::make_shared<state>(byte_limit, retention, state::lifetime::of_owner)} {}

chunk_cache::chunk_cache(std::shared_ptr<state> shared) noexcept : state_{std::move(shared)} {}

chunk_cache::~chunk_cache() = default;

physical_chunk chunk_cache::acquire(device_ref device, std::size_t bytes, handle_type shareable,
                                    chunk_memory memory) {
  cached_chunks& cache = state_->of(device);
  physical_chunk made;
  if (memory == chunk_memory::standard) made = cache.take(bytes, shareable);
  for (detail::retry_rounds rounds; made.empty();) {
    const std::uint64_t seen = state_->times_released;
    static_cast<void>(detail::attempt(
        [&] {
          made = physical_chunk{device, bytes, memory, shareable};
        },
        [&](const shortage& why) {
          if (rounds.may_help(why) && state_->release_for(why, seen)) return true;
          cache.count(&chunk_cache_statistics::refused);
          return false;
        }));
  }
  return made;
}

void chunk_cache::recycle(physical_chunk chunk) noexcept {
  static_cast<void>(keep(chunk, purpose::reuse));
}

bool chunk_cache::keep(physical_chunk& chunk, purpose why) noexcept {
  // Another owner in this process still has the memory.
  if (chunk.empty() || detail::owners_of(chunk) > 1) return false;
  cached_chunks* const cache = state_->find_or_add(chunk.device());
  if (cache == nullptr) return false;
  const bool is_reusable = !chunk.shared() && !detail::is_retained(chunk) &&
                           !chunk.location().is_host() && chunk.memory() == chunk_memory::standard;
  const bool only_while_pinned = why == purpose::release || !is_reusable;
  if (only_while_pinned && !detail::is_pinned(chunk)) {
    if (why == purpose::reuse) cache->count(&chunk_cache_statistics::dropped);
    return false;
  }
  if (state_->ends_with == state::lifetime::of_process && !state::ends_at_exit()) return false;
  auto kept = std::unique_ptr<detail::kept_chunk>{
      new (std::nothrow) detail::kept_chunk{std::move(chunk), is_reusable, only_while_pinned}};
  if (!kept) return false;
  if (detail::is_pinned(kept->chunk)) {
    state::list(state_);
    // Nothing would report the end of the pin.
    if (!state_->is_listed) return false;
  }
  state_->keep(std::move(kept), *cache);
  return true;
}

std::size_t chunk_cache::trim(std::size_t bytes_to_keep) noexcept {
  return state_->release([&](cached_chunks& each, evicted_chunks& out) {
    return each.drop_down_to(bytes_to_keep, out);
  });
}

std::size_t chunk_cache::trim(device_ref device, std::size_t bytes_to_keep) {
  const cached_chunks& wanted = state_->of(device);
  return state_->release([&](cached_chunks& each, evicted_chunks& out) {
    return &each == &wanted ? each.drop_down_to(bytes_to_keep, out) : 0;
  });
}

void chunk_cache::set_byte_limit(std::size_t byte_limit) noexcept {
  state_->bounds.bytes = byte_limit;
  trim(byte_limit);
}

std::size_t chunk_cache::byte_limit() const noexcept { return state_->bounds.bytes; }

void chunk_cache::set_retention(std::chrono::milliseconds retention) noexcept {
  state_->bounds.age = age_of(retention);
  state_->release_expired(clock::now(), std::numeric_limits<std::size_t>::max());
  // The task may be due only by the former retention. Without chunks no thread begins, because the
  // process may fork before HIP's first call.
  if (state_->is_of_parent()) return;
  const bool is_due = state_->decay.pending() || state_->oldest();
  if (is_due && state_->bounds.longest() && !state_->decay.request_now()) trim();
}

std::chrono::milliseconds chunk_cache::retention() const noexcept {
  const auto age = state_->bounds.longest();
  return age ? std::chrono::duration_cast<std::chrono::milliseconds>(*age) : forever;
}

chunk_cache_statistics chunk_cache::statistics() const noexcept {
  chunk_cache_statistics sum{};
  state_->for_each([&](const cached_chunks& each) {
    const std::lock_guard lock{each.mutex};
    add_up(sum, each.statistics);
  });
  return sum;
}

chunk_cache_statistics chunk_cache::statistics(device_ref device) const {
  const cached_chunks& cache = state_->of(device);
  const std::lock_guard lock{cache.mutex};
  return cache.statistics;
}

namespace detail {

std::uint64_t cache_registry::times_released() noexcept {
  return chunk_cache::shared().state_->times_released;
}

bool cache_registry::release_for(const out_of_memory& shortage, std::uint64_t seen) noexcept {
  return chunk_cache::shared().state_->release_for(shortage.why(), seen);
}

bool cache_registry::keep_pinned(chunk_cache& cache, physical_chunk& chunk) noexcept {
  return is_pinned(chunk) && cache.keep(chunk, chunk_cache::purpose::release);
}

cached_chunks& cache_registry::of(const chunk_cache& cache, device_ref device) {
  return cache.state_->of(device);
}

void cache_registry::release_unpinned() noexcept {
  report_exceptions([] {
    // Allocates only if there are many: a failure would leave chunks among the pinned.
    boost::container::small_vector<std::shared_ptr<chunk_cache::state>, 16> listed;
    {
      auto& [mutex, states] = only<chunk_cache::state::pinning_caches>();
      const std::lock_guard lock{mutex};
      for (const auto& each : states)
        if (auto state = each.lock()) listed.push_back(std::move(state));
    }
    for (const auto& each : listed) each->release_unpinned();
  });
}

void cache_registry::release_expired(chunk_cache& cache, clock::time_point now) noexcept {
  cache.state_->release_expired(now, std::numeric_limits<std::size_t>::max());
}

}  // namespace detail
}  // namespace hipvmm
