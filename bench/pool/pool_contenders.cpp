// SPDX-License-Identifier: MIT
#include "pool_contenders.hpp"

#include <algorithm>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include "locked_pool.hpp"

namespace bench {
namespace {

/// The steps that were timed one by one become the samples.
void take_single_steps(measurement& row) {
  row.seconds.clear();
  row.turns.clear();
  for (const std::vector<double>& steps : row.step_seconds)
    row.seconds.insert(row.seconds.end(), steps.begin(), steps.end());
}

}  // namespace

std::vector<contender> pools(hipvmm::device_ref device) {
  namespace mr = hipvmm::mr;
  return {
      {name::pool, [=] { return std::make_unique<mr::vmm_pool_resource>(device); }},
      {name::async_pool, [=] { return std::make_unique<mr::hip_async_resource>(device); },
       device.supports_memory_pools() ? "" : "the device has no stream-ordered pools"},
      {name::locked, [=] { return std::make_unique<locked_pool>(device, marking::when_wanted); }},
      {name::locked_events,
       [=] { return std::make_unique<locked_pool>(device, marking::at_each_deallocation); }}};
}

std::vector<contender> contenders(hipvmm::device_ref device) {
  std::vector<contender> all = pools(device);
  all.push_back(
      {name::driver, [=] { return std::make_unique<hipvmm::mr::hip_resource>(device); }, "", true});
  return all;
}

void held_blocks::add(std::size_t bytes) {
  blocks_.reserve(blocks_.size() + 1);
  blocks_.emplace_back(resource_.allocate(stream_, bytes), bytes);
}

void held_blocks::drop(std::size_t index) {
  const auto [pointer, bytes] = std::exchange(blocks_[index], {});
  resource_.deallocate(stream_, pointer, bytes);
}

void held_blocks::clear() {
  for (std::size_t i = 0; i < blocks_.size(); ++i) drop(i);
  blocks_.clear();
}

double time_pairs(hipvmm::mr::memory_resource& resource, hipvmm::stream_ref stream,
                  std::size_t bytes, std::size_t count) {
  const stopwatch watch;
  for (std::size_t i = 0; i < count; ++i)
    resource.deallocate(stream, resource.allocate(stream, bytes), bytes);
  return watch.seconds();
}

std::vector<double> repeating_job::sample() {
  if (steps_ == 0) {
    std::size_t tried = 16;
    static_cast<void>(run(tried));  // the first steps of all take memory from the device
    // Few steps tell little of one if threads have to meet first.
    double seconds = run(tried);
    for (; seconds < sample_seconds_ / 8; seconds = run(tried)) tried *= 4;
    const double fit = static_cast<double>(tried) * sample_seconds_ / seconds;
    steps_ = std::max(std::size_t{16}, static_cast<std::size_t>(fit));
  }
  return {run(steps_) / static_cast<double>(steps_)};
}

measurement row_for(const char* scenario, std::size_t bytes, int threads) {
  measurement row;
  row.scenario = scenario;
  row.bytes = bytes;
  row.threads = threads;
  return row;
}

std::vector<measurement> measure_jobs(const measurement& row, const std::vector<entry>& entries,
                                      const pool_settings& chosen) {
  const settings& common = chosen.common;
  std::vector<std::unique_ptr<job>> jobs(entries.size());
  std::vector<method> methods;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const contender& who = entries[i].who;
    methods.push_back({who.name, common.runs, who.slow ? 1 : common.repeats,
                       [&, i](memory_probe*) {
                         if (!jobs[i]) jobs[i] = entries[i].make();
                         return jobs[i]->sample();
                       },
                       who.unavailable});
  }
  std::vector<measurement> rows = measure(row, methods, common);
  const bool single = std::any_of(rows.begin(), rows.end(), [](const measurement& each) {
    return !each.step_seconds.empty() && each.step_seconds.front().size() > 1;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (single) take_single_steps(rows[i]);
    if (rows[i].seconds.empty()) continue;
    rows[i].steps = jobs[i]->steps();
    if (rows[i].note.empty()) rows[i].note = jobs[i]->note();
    if (!single || rows.front().seconds.empty()) continue;
    rows[i].pairs.clear();
    rows[i].ratio = summarize(rows[i].seconds).median / summarize(rows.front().seconds).median;
  }
  return rows;
}

}  // namespace bench
