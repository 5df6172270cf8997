// SPDX-License-Identifier: MIT
// Measures the cost of memory events in a pair of allocate and deallocate, which is two of them.
//
// If a ring takes more than 30 ns an event beside the reading of the clock, programs cannot leave
// it on in production. Without a subscription the pair must cost as much as in `pairs`.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/observers/memory_events.hpp>
#include "pool_contenders.hpp"

namespace bench {
namespace {

enum class receiver { none, ring, callback };

class events_job final : public repeating_job {
 public:
  events_job(resource_ptr resource, hipvmm::device_ref device, std::size_t bytes,
             double sample_seconds, receiver to)
      : repeating_job{sample_seconds},
        resource_{std::move(resource)},
        stream_{device},
        bytes_{bytes},
        to_{to} {}

 private:
  // The methods take turns, and a process has one subscription.
  double run(std::size_t steps) override {
    std::optional<hipvmm::memory_event_subscription> all;
    if (to_ == receiver::ring) all.emplace();
    if (to_ == receiver::callback)
      all.emplace([this](const hipvmm::memory_event& each) { seen_ += each.bytes; });
    constexpr std::size_t fills_ring = 1 << 13;
    if (to_ == receiver::ring)
      static_cast<void>(time_pairs(*resource_, stream_, bytes_, fills_ring));
    return time_pairs(*resource_, stream_, bytes_, steps);
  }

  resource_ptr resource_;
  hipvmm::stream stream_;
  std::size_t bytes_;
  receiver to_;
  std::uint64_t seen_ = 0;
};

/// The reading of the clock, twice as in a pair.
class clock_job final : public repeating_job {
 public:
  using repeating_job::repeating_job;

 private:
  double run(std::size_t steps) override {
    const stopwatch watch;
    for (std::size_t i = 0; i < 2 * steps; ++i)
      sink_.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                  std::memory_order_relaxed);
    return watch.seconds();
  }

  std::atomic<std::int64_t> sink_{0};
};

}  // namespace

std::vector<measurement> measure_events(const pool_settings& chosen) {
  const hipvmm::device_ref device = chosen.common.device;
  const contender pool = pools(device).front();
  std::vector<measurement> rows;
  for (const std::size_t bytes : {std::size_t{256}, hipvmm::MiB}) {
    std::vector<entry> entries;
    const auto add = [&](const char* suffix, receiver to) {
      entries.push_back({pool, [&, to] {
                           return std::make_unique<events_job>(pool.make(), device, bytes,
                                                               chosen.sample_seconds, to);
                         }});
      entries.back().who.name += suffix;
    };
    add("", receiver::none);
    add(", events in a ring", receiver::ring);
    add(", events to a callback", receiver::callback);
    entries.push_back({{"two readings of the clock"},
                       [&] { return std::make_unique<clock_job>(chosen.sample_seconds); }});
    for (measurement& row : measure_jobs(row_for(scenario::events, bytes), entries, chosen))
      rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace bench
