// SPDX-License-Identifier: MIT
// Measures a pair with random sizes and lifetimes, as in RMM's benchmark random_allocations.
//
// Above the pool of a mutex and a list, keeping memory dense costs more than it gives.
#include <algorithm>
#include <random>
#include <utility>

#include "pool_contenders.hpp"

namespace bench {
namespace {

/// One allocation, or one deallocation if `bytes` is zero.
struct operation {
  std::size_t slot;
  std::size_t bytes;
};

/// The same for all: `steps` allocations of up to `random_max_bytes`, with a deallocation of
/// something after about every second one and at the limit; at last, of all.
std::vector<operation> make_plan(const pool_settings& chosen) {
  std::mt19937_64 random{1};
  std::uniform_int_distribution<std::size_t> sizes{1, chosen.random_max_bytes};
  std::vector<operation> plan;
  std::vector<operation> live;
  std::size_t held = 0;
  const auto drop = [&](std::size_t at) {
    plan.push_back({live[at].slot, 0});
    held -= live[at].bytes;
    live[at] = live.back();
    live.pop_back();
  };
  for (std::size_t slot = 0; slot < chosen.random_steps; ++slot) {
    const operation next{slot, sizes(random)};
    while (!live.empty() && held + next.bytes > chosen.random_live_bytes)
      drop(random() % live.size());
    plan.push_back(next);
    live.push_back(next);
    held += next.bytes;
    if (random() % 2 == 0) drop(random() % live.size());
  }
  while (!live.empty()) drop(live.size() - 1);
  return plan;
}

class random_job final : public job {
 public:
  random_job(resource_ptr resource, hipvmm::device_ref device, const std::vector<operation>& plan)
      : resource_{std::move(resource)}, stream_{device}, plan_{plan}, slots_(plan.size() / 2) {}

  std::vector<double> sample() override {
    const hipvmm::stream_ref stream = stream_;
    const stopwatch watch;
    for (const operation& each : plan_) {
      auto& [pointer, bytes] = slots_[each.slot];
      if (each.bytes != 0) {
        bytes = each.bytes;
        pointer = resource_->allocate(stream, bytes);
      } else {
        resource_->deallocate(stream, pointer, bytes);
      }
    }
    return {watch.seconds() / static_cast<double>(slots_.size())};
  }
  std::size_t steps() const override { return slots_.size(); }

 private:
  resource_ptr resource_;
  hipvmm::stream stream_;
  const std::vector<operation>& plan_;
  std::vector<std::pair<void*, std::size_t>> slots_;
};

}  // namespace

std::vector<measurement> measure_random(const pool_settings& chosen) {
  const std::vector<operation> plan = make_plan(chosen);
  std::vector<entry> entries;
  const hipvmm::device_ref device = chosen.common.device;
  for (const contender& each : contenders(device))
    entries.push_back(
        {each, [&, each] { return std::make_unique<random_job>(each.make(), device, plan); }});
  return measure_jobs(row_for(scenario::random_sizes, chosen.random_max_bytes), entries, chosen);
}

}  // namespace bench
