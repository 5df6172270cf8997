// SPDX-License-Identifier: MIT
// Measures the cost of vmm_pool_resource beside hipMallocAsync, a pool as most are made and
// hipMalloc, in the same run.
//
// Each scenario has its question, and the number that would change a decision, in its own file.
// pool_bars.cpp holds the bars, and --enforce makes a missed one a failure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "bench/support/results.hpp"
#include "pool_report.hpp"

namespace {

struct options {
  bench::pool_settings measured;
  int sample_us = 1000;
  int create_pause_ms = 20;
  int device = 0;
  bool enforce = false;
  std::vector<std::string> only;
  std::string machine;
  std::string csv;
  std::string markdown;
};

struct named_scenario {
  const char* name;
  std::vector<bench::measurement> (*measure)(const bench::pool_settings&);
};

constexpr named_scenario scenarios[] = {
    {"pairs", bench::measure_pairs},   {"threads", bench::measure_threads},
    {"random", bench::measure_random}, {"handover", bench::measure_handover},
    {"create", bench::measure_create}, {"trim", bench::measure_trim},
    {"loop", bench::measure_loop},     {"events", bench::measure_events}};

bench::pool_settings defaults() {
  using hipvmm::GiB, hipvmm::KiB, hipvmm::MiB;
  bench::pool_settings result;
  result.common.runs = 5;
  result.common.repeats = 8;
  result.sizes = {256, 4 * KiB, 32 * KiB, MiB, 256 * MiB};
  result.holes = 4096;
  result.threads = {1, 2, 4, 8};
  result.random_steps = 2000;
  result.random_max_bytes = MiB;
  result.random_live_bytes = 512 * MiB;
  result.handover_bytes = 32 * MiB;
  result.create_bytes = GiB;
  result.trim_bytes = GiB;
  result.loop_bytes = MiB;
  result.loop_steps = 100;
  return result;
}

/// Most memory that all contenders of one scenario hold together.
std::size_t most_held(const bench::pool_settings& chosen) {
  const std::size_t largest = *std::max_element(chosen.sizes.begin(), chosen.sizes.end());
  // Beside the requested bytes, pools hold those lost between blocks.
  return std::max({5 * largest + 4 * chosen.holes * bench::bytes_for_hole,
                   6 * chosen.random_live_bytes, 6 * chosen.handover_bytes, 6 * chosen.loop_bytes,
                   2 * chosen.create_bytes, 3 * chosen.trim_bytes}) +
         256 * hipvmm::MiB;
}

void require_room(const bench::pool_settings& chosen) {
  const std::size_t held = most_held(chosen);
  const std::size_t allowed = chosen.common.device.total_memory() / 10 * 6;
  if (held > std::min(allowed, chosen.common.device.free_memory()))
    throw std::invalid_argument{
        "the scenarios may hold " + hipvmm::format_bytes(held) + " at a time, device " +
        std::to_string(chosen.common.device.ordinal()) + " has " +
        hipvmm::format_bytes(chosen.common.device.free_memory()) + " free and 60 % of it are " +
        hipvmm::format_bytes(allowed) +
        "; give smaller --sizes, --holes, --create-bytes, --trim-bytes or --random-live"};
}

bench::pool_settings settings_of(const options& chosen) {
  bench::pool_settings result = chosen.measured;
  const hipvmm::device_ref device{chosen.device};
  hipvmm::require_device(device);
  const std::size_t unit = hipvmm::granularity_of(device).recommended;
  result.common.device = device;
  result.common.unit = unit;
  result.sample_seconds = chosen.sample_us * 1e-6;
  result.create_pause = std::chrono::milliseconds{chosen.create_pause_ms};
  // Whole chunks, so that neither too little nor more is there than a scenario says.
  result.handover_bytes = hipvmm::align_up(result.handover_bytes, unit);
  result.create_bytes = hipvmm::align_up(result.create_bytes, 16 * unit);
  result.trim_bytes = hipvmm::align_up(result.trim_bytes, unit);
  require_room(result);
  return result;
}

// Deallocation cannot throw: the library's handler gets its failures, which lose memory.
std::atomic<int> reported{0};
void count_reported(const char* call, int code, const char* message) noexcept {
  ++reported;
  std::fprintf(stderr, "pool_bench: %s gave %d: %s\n", call, code, message);
}

void write(const options& chosen, const bench::pool_settings& settings, const bench::origin& origin,
           const std::vector<bench::measurement>& rows) {
  if (!chosen.csv.empty()) bench::write_pool_csv(chosen.csv, origin, rows);
  if (!chosen.markdown.empty())
    bench::write_pool_markdown(chosen.markdown, origin, rows, bench::judge_pool(rows, settings));
}

int run(const options& chosen, int argc, char** argv) {
  const bench::pool_settings settings = settings_of(chosen);
  const hipvmm::device_ref device = settings.common.device;
  const bench::origin origin = bench::print_origin(device, chosen.machine, argc, argv);
  hipvmm::set_error_handler(count_reported);
  bench::results all{"pool_bench"};
  for (const named_scenario& scenario : scenarios) {
    const auto& only = chosen.only;
    if (!only.empty() && std::find(only.begin(), only.end(), scenario.name) == only.end()) continue;
    all.add(scenario.name, [&] { return scenario.measure(settings); });
    // Now, because the next steps may end the program.
    write(chosen, settings, origin, all.rows());
  }
  bench::print_pool_table(all.rows());
  const std::vector<bench::bar> bars = bench::judge_pool(all.rows(), settings);
  bench::print_bars(bars);
  return all.failed() || reported != 0 || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const named_scenario& scenario : scenarios) names.emplace_back(scenario.name);
  return names;
}

void add_options(CLI::App& app, options& chosen) {
  bench::pool_settings& measured = chosen.measured;
  const auto size = [&](const char* option, std::size_t& value, const char* description) {
    app.add_option(option, value, description)
        ->transform(CLI::AsSizeValue{false})
        ->check(CLI::PositiveNumber);
  };
  const auto count = [&](const char* option, auto& value, int most, const char* description) {
    app.add_option(option, value, description)->check(CLI::Range(1, most))->capture_default_str();
  };
  count("--runs", measured.common.runs, 1000, "Runs, in each of which the methods take turns");
  count("--repeats", measured.common.repeats, 1000, "Samples of each method in each run");
  count("--sample-us", chosen.sample_us, 1'000'000, "Microseconds that a sample is to take");
  app.add_option("--sizes", measured.sizes,
                 "Sizes of pairs, with commas between them (default: 256,4KiB,32KiB,1MiB,256MiB)")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue{false})
      ->check(CLI::PositiveNumber);
  count("--holes", measured.holes, 100'000, "Holes among which pairs are measured as well");
  app.add_option("--threads", measured.threads, "Numbers of threads, with commas between them")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  count("--random-steps", measured.random_steps, 10'000'000, "Allocations of random sizes");
  size("--random-max", measured.random_max_bytes, "Largest random size (default: 1MiB)");
  size("--random-live", measured.random_live_bytes,
       "Most that is held in random sizes at a time (default: 512MiB)");
  size("--handover-bytes", measured.handover_bytes,
       "What streams hand over to each other (default: 32MiB)");
  size("--create-bytes", measured.create_bytes, "New memory to ask for (default: 1GiB)");
  app.add_option(
         "--create-pause-ms", chosen.create_pause_ms,
         "Wait before new memory is asked for, in which the driver clears what was released")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  size("--trim-bytes", measured.trim_bytes, "Idle memory to trim (default: 1GiB)");
  size("--loop-bytes", measured.loop_bytes,
       "What the loop allocates, fills and frees (default: 1MiB)");
  count("--loop-steps", measured.loop_steps, 1'000'000, "Rounds of the loop in each sample");
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--only", chosen.only, "Scenarios to measure, with commas between them")
      ->delimiter(',')
      ->check(CLI::IsMember(scenario_names()));
  app.add_option("--machine", chosen.machine,
                 "What else the files are to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_option("--markdown", chosen.markdown, "Write tables for a page to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures the pool beside hipMallocAsync, a pool of a mutex and a list and hipMalloc.",
      "pool_bench"};
  options chosen;
  chosen.measured = defaults();
  add_options(app, chosen);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pool_bench: %s\n", error.what());
    return 1;
  }
}
