// SPDX-License-Identifier: MIT
#include "measure.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace bench {
namespace {

/// Runs the method with the device current and waits until all it had is released, so that the
/// next method finds the device as this one did.
std::vector<double> run_alone(const method& each, hipvmm::device_ref device, memory_probe* probe) {
  const hipvmm::scoped_device scope{device};
  std::vector<double> seconds = each.run(probe);
  hipvmm::drain_retired_memory();
  hipvmm::chunk_cache::shared().trim();
  device.synchronize();
  return seconds;
}

/// Keeps the reason why a method ends here; the other methods go on.
template <typename Work>
void guarded(measurement& row, Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    row.note = std::string{"failed: "} + error.what();
    row.failed = true;
  }
}

/// Takes one sample, and with the first one counts its HIP calls, setting up and giving back too.
void sample(const method& each, std::size_t turn, const settings& chosen, measurement& row) {
  // Meanwhile the driver may end its work on the memory of the method before.
  if (chosen.pause.count() != 0) std::this_thread::sleep_for(chosen.pause);
  const auto before = hip_calls();
  std::vector<double> steps = run_alone(each, chosen.device, nullptr);
  const auto after = hip_calls();
  if (before && after && !row.calls)
    row.calls = {after->all - before->all, after->copies - before->copies};
  row.seconds.push_back(std::accumulate(steps.begin(), steps.end(), 0.0));
  row.step_seconds.push_back(std::move(steps));
  row.turns.push_back(turn);
}

/// The order in which `count` methods take their turn number `turn`. Over 2 * count turns each
/// comes first, and follows each other one, equally often: the figures of a method depend on the
/// one before.
std::vector<std::size_t> turn_order(std::size_t count, std::size_t turn) {
  // 0, 1, -1, 2, -2 ... modulo count goes in steps of 1, -2, 3, -4 ... Together with the reverse
  // each distance occurs twice, so the rotations of both have every ordered pair twice.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t distance = (i + 1) / 2;
    order.push_back(((i % 2 == 1 ? distance : count - distance) + turn / 2) % count);
  }
  if (turn % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

std::vector<double> grow_once(const growth_method& each, hipvmm::device_ref device,
                              const std::vector<std::size_t>& sizes, memory_probe* probe,
                              std::vector<std::size_t>& most_held) {
  const hipvmm::stream writing{device};
  const peak_hook look = probe == nullptr ? peak_hook{} : [probe] { probe->look(); };
  const std::unique_ptr<grower> memory = each.make(look);
  std::vector<double> seconds;
  seconds.reserve(sizes.size());
  std::size_t before = 0;
  for (const std::size_t size : sizes) {
    const stopwatch watch;
    memory->grow(size);
    seconds.push_back(watch.seconds());
    if (each.writes) {
      hipvmm::fill_async(writing, static_cast<char*>(memory->data()) + before, 1, size - before);
      writing.synchronize();
    }
    before = size;
    if (probe == nullptr) continue;
    probe->look();
    most_held.push_back(probe->take_most());
  }
  return seconds;
}

}  // namespace

void memory_probe::look() {
  const std::size_t now = device_.free_memory();
  if (now < at_start_) most_ = std::max(most_, at_start_ - now);
}

std::size_t memory_probe::take_most() { return std::exchange(most_, 0); }

std::vector<std::size_t> doubling(std::size_t first, std::size_t max_bytes) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = first; size <= max_bytes; size *= 2) sizes.push_back(size);
  return sizes;
}

std::vector<std::size_t> equal_steps(std::size_t step, std::size_t max_bytes) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = step; size <= max_bytes; size += step) sizes.push_back(size);
  return sizes;
}

std::vector<measurement> measure(const measurement& scenario, const std::vector<method>& methods,
                                 const settings& chosen) {
  std::vector<measurement> rows;
  for (const method& each : methods) {
    measurement row = scenario;
    row.method = each.name;
    if (!each.unavailable.empty()) {
      row.note = "not measured: " + each.unavailable;
    } else {
      // The first use of anything is slower.
      guarded(row, [&] {
        memory_probe probe{chosen.device};
        static_cast<void>(run_alone(each, chosen.device, &probe));
      });
    }
    rows.push_back(std::move(row));
  }
  int most_repeats = 1;
  for (const method& each : methods) most_repeats = std::max(most_repeats, each.repeats);
  // Those that are sampled in every turn go together, so that a pair is never seconds apart.
  std::vector<std::size_t> often;
  std::vector<std::size_t> seldom;
  for (std::size_t i = 0; i < methods.size(); ++i)
    if (rows[i].note.empty()) (methods[i].repeats == most_repeats ? often : seldom).push_back(i);
  std::size_t turn = 0;
  for (int run = 0; run < chosen.runs; ++run) {
    for (int repeat = 0; repeat < most_repeats; ++repeat, ++turn) {
      const auto take_turns = [&](const std::vector<std::size_t>& group, std::size_t number) {
        for (const std::size_t place : turn_order(group.size(), number)) {
          const std::size_t at = group[place];
          const method& each = methods[at];
          if (run < each.runs && repeat < each.repeats && rows[at].note.empty())
            guarded(rows[at], [&] { sample(each, turn, chosen, rows[at]); });
        }
      };
      take_turns(often, turn);
      take_turns(seldom, static_cast<std::size_t>(run + repeat));
    }
  }
  for (measurement& row : rows) {
    if (row.seconds.empty() || rows.front().seconds.empty()) continue;
    row.ratio = summarize(row.seconds).median / summarize(rows.front().seconds).median;
    row.pairs = paired_ratios(row, rows.front());
  }
  return rows;
}

std::vector<measurement> measure_growth(const std::string& scenario,
                                        const std::vector<std::size_t>& sizes,
                                        const std::vector<growth_method>& methods,
                                        const settings& chosen) {
  std::vector<std::vector<std::size_t>> most_held(methods.size());
  std::vector<method> runnable;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const growth_method& each = methods[i];
    runnable.push_back({each.name, each.copies ? chosen.copy_runs : chosen.runs,
                        each.copies ? 1 : chosen.repeats,
                        [&, i](memory_probe* probe) {
                          return grow_once(methods[i], chosen.device, sizes, probe, most_held[i]);
                        },
                        each.unavailable});
  }
  measurement plain;
  plain.scenario = scenario;
  plain.steps = sizes.size();
  plain.bytes = sizes.back();
  std::vector<measurement> rows = measure(plain, runnable, chosen);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].step_bytes = sizes;
    rows[i].step_held = most_held[i];
    if (!most_held[i].empty())
      rows[i].peak_bytes = *std::max_element(most_held[i].begin(), most_held[i].end());
  }
  return rows;
}

}  // namespace bench
