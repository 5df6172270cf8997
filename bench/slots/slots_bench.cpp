// SPDX-License-Identifier: MIT
// Measures the slots of a KV cache: a step of a batch, ends and beginnings, memory that nobody
// uses. Each scenario is a file, with the number that would change a decision at its top; --enforce
// makes a missed bar a failure.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "bench/support/bars.hpp"
#include "bench/support/report.hpp"
#include "bench/support/results.hpp"
#include "slots_scenarios.hpp"

namespace {

struct options {
  bench::slots_shape shape{256, 2, 2 * hipvmm::MiB, 8};
  int runs = 5;
  int repeats = 4;
  int device = 0;
  bool enforce = false;
  std::string machine;
  std::string csv;
};

std::vector<double> paired(const std::vector<bench::measurement>& rows, const char* scenario,
                           const char* slow, const char* fast) {
  const bench::measurement* const a = bench::row_of(rows, scenario, slow);
  const bench::measurement* const b = bench::row_of(rows, scenario, fast);
  return a == nullptr || b == nullptr ? std::vector<double>{} : bench::paired_ratios(*a, *b);
}

/// The median step of each sample, in microseconds.
std::vector<double> steps_of(const std::vector<bench::measurement>& rows, const char* method) {
  std::vector<double> result;
  const bench::measurement* const row = bench::row_of(rows, bench::scenario::growth_step, method);
  if (row == nullptr) return result;
  for (const std::vector<double>& each : row->step_seconds)
    result.push_back(bench::summarize(each).median * 1e6);
  return result;
}

std::vector<bench::bar> judge(const std::vector<bench::measurement>& rows,
                              const bench::slots_shape& shape) {
  using namespace bench;
  std::vector<bar> bars;
  const std::string batch = std::to_string(shape.slots) + " slots: ";
  bars.push_back(
      at_most(batch + "a growth step, prefetched", 5.0, " us", steps_of(rows, name::prefetched)));
  bars.push_back(
      at_most(batch + "a growth step, not prefetched, beside raw calls", 1.2, " times",
              paired(rows, scenario::growth_step, name::not_prefetched, name::raw_calls)));
  bars.push_back(
      at_least(batch + "the same slots again, faster than other slots", 10.0, " times",
               paired(rows, scenario::begin_again, name::other_slots, name::same_slots)));
  for (const measurement& each : rows) {
    const auto ratio = each.figures.find("held_per_used");
    if (ratio == each.figures.end()) continue;
    const bool is_short = each.method.find("64 KiB") == 0;
    if (is_short && each.method.find("packed") == std::string::npos) continue;
    bars.push_back(at_most(each.method + ": held for each byte used", each.figures.at("bound"),
                           " times", std::optional{ratio->second}));
  }
  return bars;
}

int run(const options& chosen, int argc, char** argv) {
  bench::settings settings;
  settings.device = hipvmm::device_ref{chosen.device};
  hipvmm::require_device(settings.device);
  settings.unit = hipvmm::granularity_of(settings.device).minimum;
  settings.runs = chosen.runs;
  settings.repeats = chosen.repeats;
  bench::slots_shape shape = chosen.shape;
  shape.block = hipvmm::align_up(shape.block, settings.unit);
  const std::size_t needed = shape.slots * shape.planes * (shape.steps + 1) * shape.block;
  if (needed > settings.device.free_memory())
    throw std::invalid_argument{"the slots need " + hipvmm::format_bytes(needed) + ", and " +
                                hipvmm::format_bytes(settings.device.free_memory()) +
                                " are free; give fewer with --slots, --planes or --steps"};
  const bench::origin origin = bench::print_origin(settings.device, chosen.machine, argc, argv);
  bench::results all{"slots_bench"};
  all.add("growth_step", [&] { return bench::measure_growth_step(settings, shape); });
  all.add("begin_again", [&] { return bench::measure_begin_again(settings, shape); });
  all.add("waste", [&] { return bench::measure_waste(settings, shape); });
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, all.rows());
  bench::print_table(all.rows());
  const std::vector<bench::bar> bars = judge(all.rows(), shape);
  bench::print_bars(bars);
  return all.failed() || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the slots of a KV cache, beside the raw HIP calls.", "slots_bench"};
  options chosen;
  const auto count = [&](const char* option, auto& value, const char* description) {
    app.add_option(option, value, description)->check(CLI::Range(1, 10000))->capture_default_str();
  };
  count("--slots", chosen.shape.slots, "Slots of the batch");
  count("--planes", chosen.shape.planes, "Planes of each slot");
  count("--steps", chosen.shape.steps, "Blocks that each slot grows by");
  app.add_option("--block", chosen.shape.block, "Bytes of a block (default: 2MiB)")
      ->transform(CLI::AsSizeValue{false});
  count("--runs", chosen.runs, "Runs, in each of which the methods take turns");
  count("--repeats", chosen.repeats, "Samples of each method in each run");
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--machine", chosen.machine,
                 "What else the file is to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slots_bench: %s\n", error.what());
    return 1;
  }
}
