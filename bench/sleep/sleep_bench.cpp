// SPDX-License-Identifier: MIT
// Measures the cost of suspend() and resume(). Each scenario is a file, with the number that would
// change a decision at its top; --enforce makes a missed bar a failure.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "bench/support/bars.hpp"
#include "bench/support/report.hpp"
#include "bench/support/results.hpp"
#include "sleep_scenarios.hpp"

namespace {

struct options {
  bench::sleep_shape shape{8 * hipvmm::GiB, 64 * hipvmm::MiB};
  int runs = 3;
  int repeats = 3;
  int pause_ms = 300;
  int device = 0;
  bool enforce = false;
  std::string machine;
  std::string csv;
};

std::vector<double> paired(const std::vector<bench::measurement>& rows, const char* scenario,
                           const char* above, const char* below) {
  const bench::measurement* const a = bench::row_of(rows, scenario, above);
  const bench::measurement* const b = bench::row_of(rows, scenario, below);
  return a == nullptr || b == nullptr ? std::vector<double>{} : bench::paired_ratios(*a, *b);
}

std::vector<bench::bar> judge(const std::vector<bench::measurement>& rows) {
  using namespace bench;
  std::vector<bar> bars;
  const auto beside_raw = [&](const char* what, double bound, const char* scenario,
                              const char* method) {
    bars.push_back(at_most(std::string{what} + ", " + method + ", beside raw calls", bound,
                           " times", paired(rows, scenario, method, name::raw_calls)));
  };
  beside_raw("suspend", 1.1, scenario::suspend_nothing, name::region);
  beside_raw("suspend", 1.1, scenario::suspend_nothing, name::pool);
  beside_raw("resume", 1.2, scenario::resume_nothing, name::region);
  // A share of the bandwidth is the reverse of the share of the time.
  const auto of_link = [&](const char* method, const char* copy) {
    bars.push_back(
        at_least(std::string{"resume of contents, "} + method + ", of one pinned copy's bandwidth",
                 0.95, " times", paired(rows, scenario::resume_contents, copy, method)));
  };
  of_link(name::kept, name::pinned_copy);
  of_link(name::pool_kept, name::pool_pinned_copy);
  const auto faster = [&](const char* what, const char* scenario) {
    bars.push_back(at_least(std::string{what} + ", faster than each allocation by itself", 1.0,
                            " times", paired(rows, scenario, name::by_allocation, name::kept)));
  };
  faster("suspend with contents", scenario::suspend_contents);
  faster("resume of contents", scenario::resume_contents);
  return bars;
}

int run(const options& chosen, int argc, char** argv) {
  bench::settings settings;
  settings.device = hipvmm::device_ref{chosen.device};
  hipvmm::require_device(settings.device);
  settings.unit = hipvmm::granularity_of(settings.device).minimum;
  settings.runs = chosen.runs;
  settings.repeats = chosen.repeats;
  settings.pause = std::chrono::milliseconds{chosen.pause_ms};
  bench::sleep_shape shape = chosen.shape;
  shape.chunk = hipvmm::align_up(shape.chunk, settings.unit);
  shape.bytes = hipvmm::align_up(shape.bytes, shape.chunk);
  // One method's memory is awake at a time; the next wakes before the last is told to sleep.
  if (shape.bytes > settings.device.free_memory())
    throw std::invalid_argument{"sleep takes " + hipvmm::format_bytes(shape.bytes) + ", and " +
                                hipvmm::format_bytes(settings.device.free_memory()) +
                                " are free; give fewer --bytes"};
  const bench::origin origin = bench::print_origin(settings.device, chosen.machine, argc, argv);
  bench::results all{"sleep_bench"};
  const auto add = [&](const char* scenario, auto measure) {
    all.add(scenario, [&] { return measure(settings, shape); });
  };
  add("nothing kept", bench::measure_empty_sleep);
  add("copies in pieces", bench::measure_copy_pieces);
  add("pinning", bench::measure_pinning);
  add("contents of a region", bench::measure_region_contents);
  add("contents of a pool", bench::measure_pool_contents);
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, all.rows());
  bench::print_table(all.rows());
  const std::vector<bench::bar> bars = judge(all.rows());
  bench::print_bars(bars);
  return all.failed() || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures suspend() and resume() beside the raw HIP calls and a plain copy.",
               "sleep_bench"};
  options chosen;
  const auto count = [&](const char* option, auto& value, const char* description) {
    app.add_option(option, value, description)->check(CLI::Range(1, 10000))->capture_default_str();
  };
  app.add_option("--bytes", chosen.shape.bytes,
                 "Memory that sleeps; as much of the host is pinned, and 8 GiB (default: 8GiB)")
      ->transform(CLI::AsSizeValue{false});
  app.add_option("--chunk", chosen.shape.chunk, "Bytes of a chunk (default: 64MiB)")
      ->transform(CLI::AsSizeValue{false});
  count("--runs", chosen.runs, "Runs, in each of which the methods take turns");
  count("--repeats", chosen.repeats, "Samples of each method in each run");
  app.add_option("--pause-ms", chosen.pause_ms,
                 "Time asleep before each resume, in which the driver clears what was released")
      ->check(CLI::Range(0, 60000))
      ->capture_default_str();
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--machine", chosen.machine,
                 "What else the file is to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sleep_bench: %s\n", error.what());
    return 1;
  }
}
