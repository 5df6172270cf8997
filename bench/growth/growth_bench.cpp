// SPDX-License-Identifier: MIT
// Measures the cost and the gain of growth in place: beside the HIP calls that no library can
// avoid, and beside the ways to grow that copy. Each scenario is a file, with the number that would
// change a decision at its top; growth_bars.cpp holds the bars, and --enforce makes a missed one a
// failure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "bench/support/report.hpp"
#include "bench/support/results.hpp"
#include "growth_bars.hpp"
#include "growth_markdown.hpp"
#include "growth_scenarios.hpp"
#include "raw_hip_growth.hpp"

namespace {

struct options {
  std::size_t max_bytes = 4 * hipvmm::GiB;
  std::size_t step_bytes = 64 * hipvmm::MiB;
  std::size_t steps_bytes = 16 * hipvmm::GiB;
  int runs = 5;
  int repeats = 8;
  int copy_runs = 5;
  int pause_ms = 0;
  std::vector<int> create_pauses_ms = {0, 50, 200, 500, 1000, 2000};
  int device = 0;
  bool enforce = false;
  std::vector<std::string> only;
  std::string machine;
  std::string csv;
  std::string steps_csv;
  std::string markdown;
};

struct named_scenario {
  const char* name;
  std::vector<bench::measurement> (*measure)(const bench::settings&);
};

constexpr named_scenario scenarios[] = {{"doubling", bench::measure_doubling},
                                        {"steps", bench::measure_steps},
                                        {"push_back", bench::measure_push_back},
                                        {"largest", bench::measure_largest},
                                        {"bandwidth", bench::measure_bandwidth},
                                        {"beside_kernel", bench::measure_beside_kernel},
                                        {"create_after_free", bench::measure_create_after_free},
                                        {"create_on_full", bench::measure_create_on_full_device},
                                        {"peers", bench::measure_peers}};

/// The size that the device can hold twice, because copying needs the old and the new at once.
std::size_t clamped(std::size_t wanted, hipvmm::device_ref device) {
  const std::size_t possible = device.free_memory() / 2;
  if (wanted <= possible) return wanted;
  std::printf("--max-bytes: %s become %s, half of what device %d has free\n",
              hipvmm::format_bytes(wanted).c_str(), hipvmm::format_bytes(possible).c_str(),
              device.ordinal());
  return possible;
}

bench::settings settings_of(const options& chosen) {
  const hipvmm::device_ref device{chosen.device};
  hipvmm::require_device(device);
  bench::settings result;
  result.device = device;
  result.unit = hipvmm::granularity_of(device).recommended;
  result.max_bytes = hipvmm::align_down(clamped(chosen.max_bytes, device), result.unit);
  result.step_bytes = hipvmm::align_up(chosen.step_bytes, result.unit);
  result.steps_bytes = std::min(chosen.steps_bytes, result.max_bytes);
  result.runs = chosen.runs;
  result.repeats = chosen.repeats;
  result.copy_runs = chosen.copy_runs;
  result.create_pauses_ms = chosen.create_pauses_ms;
  result.pause = std::chrono::milliseconds{chosen.pause_ms};
  const std::size_t least =
      std::max(hipvmm::align_up(2 * hipvmm::MiB, result.unit), result.step_bytes);
  if (result.steps_bytes < least)
    throw std::invalid_argument{hipvmm::format_bytes(result.steps_bytes) +
                                " are less than one step; give more with --max-bytes and "
                                "--steps-bytes or less with --step"};
  return result;
}

/// Loads the code of a first fill, kernel and copy, so that it is not taken for memory that the
/// first method holds.
void warm_up(hipvmm::device_ref device) {
  const hipvmm::scoped_device scope{device};
  const hipvmm::stream stream{device};
  const auto memory = bench::make_allocation();
  memory->grow(2 * hipvmm::MiB);
  hipvmm::fill_async(stream, memory->data(), 1, hipvmm::MiB);
  if constexpr (bench::kernels_built) {
    bench::launch_wait(1, stream.get());
    bench::launch_read(memory->data(), hipvmm::MiB, stream.get());
    bench::launch_copy(static_cast<char*>(memory->data()) + hipvmm::MiB, memory->data(),
                       hipvmm::MiB, stream.get());
  }
  unsigned char byte = 0;
  hipvmm::copy(stream, &byte, memory->data(), 1);
}

void write(const options& chosen, const bench::settings& settings, const bench::origin& origin,
           const std::vector<bench::measurement>& rows) {
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, rows);
  if (!chosen.steps_csv.empty()) bench::write_steps_csv(chosen.steps_csv, rows);
  if (!chosen.markdown.empty())
    bench::write_markdown(chosen.markdown, origin, rows, bench::judge(rows, settings));
}

int run(const options& chosen, int argc, char** argv) {
  const bench::settings settings = settings_of(chosen);
  const hipvmm::device_ref device = settings.device;
  const bench::origin origin = bench::print_origin(device, chosen.machine, argc, argv);
  warm_up(device);
  bench::results all{"growth_bench"};
  for (const named_scenario& scenario : scenarios) {
    const auto& only = chosen.only;
    if (!only.empty() && std::find(only.begin(), only.end(), scenario.name) == only.end()) continue;
    all.add(scenario.name, [&] { return scenario.measure(settings); });
    // Now, because the next steps may end the program.
    write(chosen, settings, origin, all.rows());
  }
  bench::print_table(all.rows());
  const std::vector<bench::bar> bars = bench::judge(all.rows(), settings);
  bench::print_bars(bars);
  return all.failed() || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const named_scenario& scenario : scenarios) names.emplace_back(scenario.name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures growth in place beside the raw HIP calls and beside growth by copying.",
               "growth_bench"};
  options chosen;
  const auto size = [&](const char* option, std::size_t& value, const char* description) {
    app.add_option(option, value, description)->transform(CLI::AsSizeValue{false});
  };
  const auto count = [&](const char* option, int& value, const char* description) {
    app.add_option(option, value, description)->check(CLI::Range(1, 1000))->capture_default_str();
  };
  size("--max-bytes", chosen.max_bytes, "Largest size to double to (default: 4GiB)");
  size("--step", chosen.step_bytes, "Size of the equal steps (default: 64MiB)");
  size("--steps-bytes", chosen.steps_bytes,
       "Size the equal steps lead to (default: 16GiB, at most --max-bytes)");
  count("--runs", chosen.runs, "Runs, in each of which the methods take turns");
  count("--repeats", chosen.repeats, "Samples of the methods that do not copy in each run");
  count("--copy-runs", chosen.copy_runs, "Runs that sample growth by copying, which is slow");
  app.add_option("--create-pauses-ms", chosen.create_pauses_ms,
                 "Milliseconds between giving memory back and creating, with commas between them")
      ->delimiter(',')
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  app.add_option("--pause-ms", chosen.pause_ms,
                 "Milliseconds to sleep before each sample, of every method alike")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--only", chosen.only, "Scenarios to measure, with commas between them")
      ->delimiter(',')
      ->check(CLI::IsMember(scenario_names()));
  app.add_option("--machine", chosen.machine,
                 "What else the files are to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_option("--steps-csv", chosen.steps_csv, "Write the figures of each step to this file");
  app.add_option("--markdown", chosen.markdown, "Write tables for a page to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "growth_bench: %s\n", error.what());
    return 1;
  }
}
