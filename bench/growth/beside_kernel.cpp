// SPDX-License-Identifier: MIT
// How long does growth take while a kernel runs that has nothing to do with it?
//
// Above 1 ms it waits for something, and programs that overlap growth with work lose the overlap.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "growth_scenarios.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

constexpr unsigned work_milliseconds = 200;

/// Keeps the stream busy for 200 ms: with a kernel if nvcc or hipcc was found, else with a host
/// function.
void keep_busy(const hipvmm::stream& stream) {
  // The step is to find the work running, not about to be.
  hipvmm::event reached{stream.device()};
  reached.record(stream);
  if constexpr (kernels_built) {
    launch_wait(work_milliseconds, stream.get());
  } else {
    // Not hipLaunchHostFunc, which AMD's 5.2 declares and does not export.
    const auto sleep = [](hipStream_t, hipError_t, void*) {
      std::this_thread::sleep_for(std::chrono::milliseconds{work_milliseconds});
    };
    const hipError_t result = hipStreamAddCallback(stream.get(), sleep, nullptr, 0);
    if (result != hipSuccess)
      throw hipvmm::hip_error{static_cast<int>(result), "hipStreamAddCallback", __FILE__, __LINE__};
  }
  reached.synchronize();
}

}  // namespace

std::vector<measurement> measure_beside_kernel(const settings& chosen) {
  const std::size_t first = std::max(
      chosen.unit, hipvmm::align_down(std::min(chosen.max_bytes / 4, hipvmm::GiB), chosen.unit));
  const std::vector<std::size_t> sizes = {first, first + chosen.step_bytes};
  std::vector<growth_method> methods = common_methods(chosen, sizes);
  methods.push_back({name::plain, [](const peak_hook&) { return make_allocation(); }});

  std::vector<int> samples(methods.size());
  std::vector<int> waits(methods.size());
  std::vector<method> runnable;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const auto run = [&, i](memory_probe* probe) {
      const hipvmm::stream busy{chosen.device};
      const std::unique_ptr<grower> memory = methods[i].make({});
      memory->grow(sizes.front());
      keep_busy(busy);
      const stopwatch watch;
      memory->grow(sizes.back());
      const double seconds = watch.seconds();
      const bool waited = busy.is_done();
      busy.synchronize();
      if (probe == nullptr) {
        ++samples[i];
        waits[i] += waited;
      }
      return std::vector<double>{seconds};
    };
    runnable.push_back({methods[i].name, methods[i].copies ? chosen.copy_runs : chosen.runs,
                        methods[i].copies ? 1 : std::min(chosen.repeats, 4), run,
                        methods[i].unavailable});
  }
  measurement row;
  row.scenario = scenario::beside;
  row.steps = 1;
  row.bytes = sizes.back();
  std::vector<measurement> rows = measure(row, runnable, chosen);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (waits[i] != 0 && rows[i].note.empty())
      rows[i].note = "returned after the work in " + std::to_string(waits[i]) + " of " +
                     std::to_string(samples[i]) + " samples";
  return rows;
}

}  // namespace bench
