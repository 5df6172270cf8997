// SPDX-License-Identifier: MIT
// Is memory that was mapped piece by piece as fast to read and copy as one plain allocation?
//
// Below 0.99 of the bandwidth over hipMalloc, growth in place costs its users more than it saves
// them. The place of memory in the device makes a larger difference, so each kind is allocated
// several times, and judged by the median of pairs that were allocated one after the other.
#include <algorithm>
#include <functional>
#include <memory>

#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "growth_scenarios.hpp"
#include "library_growth.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

constexpr int passes = 5;
constexpr int allocations_each_run = 2;

/// One pass over `bytes` bytes at `memory`, all of which are read or written.
using pass = std::function<void(unsigned char* memory, std::size_t bytes, hipvmm::stream_ref)>;

/// Seconds of each pass by the device's clock, after one that is not counted.
std::vector<double> time_passes(const pass& go, unsigned char* memory, std::size_t bytes,
                                hipvmm::device_ref device) {
  const hipvmm::stream stream{device};
  hipvmm::event start{device, hipvmm::event_timing::enabled};
  hipvmm::event end{device, hipvmm::event_timing::enabled};
  hipvmm::fill_async(stream, memory, 1, bytes);
  go(memory, bytes, stream);
  std::vector<double> seconds;
  for (int i = 0; i < passes; ++i) {
    start.record(stream);
    go(memory, bytes, stream);
    end.record(stream);
    end.synchronize();
    seconds.push_back(std::chrono::duration<double>(hipvmm::event::elapsed(start, end)).count());
  }
  stream.synchronize();
  return seconds;
}

struct memory_kind {
  const char* name;
  std::function<std::unique_ptr<grower>()> make;
  std::vector<std::size_t> sizes;  ///< through which it grows before it is measured
};

std::vector<measurement> measure_passes(const char* scenario, std::size_t bytes, const pass& go,
                                        const std::vector<memory_kind>& kinds, bool built,
                                        const settings& chosen) {
  std::vector<method> methods;
  for (const memory_kind& kind : kinds) {
    // New memory for each sample: its place in the device is part of the difference.
    const auto run = [&](memory_probe*) {
      const std::unique_ptr<grower> memory = kind.make();
      for (const std::size_t size : kind.sizes) memory->grow(size);
      return time_passes(go, static_cast<unsigned char*>(memory->data()), bytes, chosen.device);
    };
    methods.push_back({kind.name, chosen.runs, std::min(chosen.repeats, allocations_each_run), run,
                       built ? "" : no_kernels});
  }
  measurement row;
  row.scenario = scenario;
  row.steps = passes;
  row.bytes = bytes;
  std::vector<measurement> rows = measure(row, methods, chosen);
  for (measurement& each : rows) {
    if (each.seconds.empty()) continue;
    const summary time = summarize(each.seconds);
    const double gigabytes = static_cast<double>(bytes) * passes / 1e9;
    each.gigabytes_per_second = gigabytes / time.median;
    each.best_gigabytes_per_second = gigabytes / time.min;
  }
  return rows;
}

}  // namespace

std::vector<measurement> measure_bandwidth(const settings& chosen) {
  const hipvmm::device_ref device = chosen.device;
  // Both halves and all sizes on the way are whole steps.
  const std::size_t half = hipvmm::align_down(chosen.max_bytes / 2, chosen.step_bytes);
  const std::size_t bytes = std::max(2 * half, chosen.step_bytes);
  std::vector<std::size_t> doubled = doubling(chosen.step_bytes, bytes);
  if (doubled.back() != bytes) doubled.push_back(bytes);
  const std::vector<memory_kind> kinds = {
      {name::plain, make_allocation, {bytes}},
      {name::doubled_vector, [=] { return make_vector(device, exact_steps()); }, doubled},
      {name::stepped_vector, [=] { return make_vector(device, exact_steps()); },
       equal_steps(chosen.step_bytes, bytes)}};

  pass read_by_kernel;
  pass copy_by_kernel;
  if constexpr (kernels_built) {
    read_by_kernel = [](unsigned char* memory, std::size_t all, hipvmm::stream_ref stream) {
      launch_read(memory, all, stream.get());
    };
    copy_by_kernel = [](unsigned char* memory, std::size_t all, hipvmm::stream_ref stream) {
      launch_copy(memory + all / 2, memory, all / 2, stream.get());
    };
  }
  const pass copy_by_call = [](unsigned char* memory, std::size_t all, hipvmm::stream_ref stream) {
    hipvmm::copy_async(stream, memory + all / 2, memory, all / 2);
  };
  std::vector<measurement> rows;
  const auto add = [&](const char* scenario, const pass& go, bool built) {
    for (measurement& row : measure_passes(scenario, bytes, go, kinds, built, chosen))
      rows.push_back(std::move(row));
  };
  add(scenario::read_kernel, read_by_kernel, kernels_built);
  add(scenario::copy_kernel, copy_by_kernel, kernels_built);
  add(scenario::copy_call, copy_by_call, true);
  return rows;
}

}  // namespace bench
