// SPDX-License-Identifier: MIT
// Measures the cost of memory that several devices or processes share: beside the HIP calls that no
// library can avoid. Each scenario is a file, with the number that would change a decision at its
// top; --enforce makes a missed bar a failure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "bench/support/bars.hpp"
#include "bench/support/report.hpp"
#include "bench/support/results.hpp"
#include "sharing_scenarios.hpp"

namespace {

struct options {
  std::size_t step_bytes = 64 * hipvmm::MiB;
  std::size_t steps_bytes = hipvmm::GiB;
  int runs = 5;
  int repeats = 4;
  int device = 0;
  int devices = 2;
  int importers = 1;
  bool enforce = false;
  std::vector<std::string> only;
  std::string machine;
  std::string csv;
};

struct named_scenario {
  const char* name;
  std::function<std::vector<bench::measurement>(const bench::settings&, const bench::peers&,
                                                const bench::importers&)>
      measure;
};

const std::vector<named_scenario>& scenarios() {
  static const std::vector<named_scenario> all = {
      {"growth_visible",
       [](const auto& chosen, auto&, const auto& others) {
         return bench::measure_growth_visible(chosen, others);
       }},
      {"rights", [](const auto& chosen, const auto& peers,
                    auto&) { return bench::measure_rights(chosen, peers); }},
      {"peer_bandwidth", [](const auto& chosen, const auto& peers,
                            auto&) { return bench::measure_peer_bandwidth(chosen, peers); }},
      {"striped", [](const auto& chosen, const auto& peers,
                     auto&) { return bench::measure_striped(chosen, peers); }},
      {"migration", [](const auto& chosen, const auto& peers, auto&) {
         return bench::measure_migration(chosen, peers);
       }}};
  return all;
}

bench::settings settings_of(const options& chosen) {
  const hipvmm::device_ref device{chosen.device};
  hipvmm::require_device(device);
  bench::settings result;
  result.device = device;
  result.unit = hipvmm::granularity_of(device).recommended;
  result.step_bytes = hipvmm::align_up(chosen.step_bytes, result.unit);
  result.steps_bytes = std::min(chosen.steps_bytes, device.free_memory() / 3);
  result.runs = chosen.runs;
  result.repeats = chosen.repeats;
  if (result.steps_bytes < result.step_bytes)
    throw std::invalid_argument{hipvmm::format_bytes(result.steps_bytes) +
                                " are less than one step; give more with --steps-bytes or less "
                                "with --step"};
  return result;
}

std::vector<double> paired(const std::vector<bench::measurement>& rows, const char* scenario,
                           const char* slow, const char* fast) {
  const bench::measurement* const a = bench::row_of(rows, scenario, slow);
  const bench::measurement* const b = bench::row_of(rows, scenario, fast);
  return a == nullptr || b == nullptr ? std::vector<double>{} : bench::paired_ratios(*a, *b);
}

/// The microseconds of each step: for rights, of a chunk.
std::vector<double> us_a_step(const std::vector<bench::measurement>& rows, const char* scenario,
                              const char* method) {
  std::vector<double> result;
  if (const bench::measurement* const row = bench::row_of(rows, scenario, method))
    for (const double each : row->seconds)
      result.push_back(each * 1e6 / static_cast<double>(row->steps));
  return result;
}

std::vector<bench::bar> judge(const std::vector<bench::measurement>& rows, std::size_t devices) {
  using namespace bench;
  std::vector<bar> bars;
  for (const char* each : {name::adopt, name::publication})
    bars.push_back(
        at_most(std::string{scenario::growth_visible} + ": " + each + " beside raw calls", 3.0,
                " times", paired(rows, scenario::growth_visible, each, name::raw_calls)));
  for (const char* each : {scenario::peer_kernel, scenario::peer_copy})
    bars.push_back(
        at_least(std::string{each} + ": bandwidth over " + name::vector + " beside hipMalloc", 0.98,
                 " times", paired(rows, each, name::plain, name::vector)));
  bars.push_back(at_least(std::string{scenario::striped} + " over " + std::to_string(devices) +
                              " devices: faster than one",
                          0.9 * static_cast<double>(devices), " times",
                          paired(rows, scenario::striped, name::one_device, name::striped)));
  bars.push_back(told(std::string{scenario::growth_visible} + ": a step by " + name::publication,
                      " us", us_a_step(rows, scenario::growth_visible, name::publication)));
  for (const char* each : {scenario::grant, scenario::revoke}) {
    bars.push_back(told(std::string{each} + ": a chunk and device, by a region", " us",
                        us_a_step(rows, each, name::region)));
    bars.push_back(told(std::string{each} + ": region beside raw calls", " times",
                        paired(rows, each, name::region, name::raw_calls)));
  }
  bars.push_back(told(std::string{scenario::migration} + ": region beside raw calls", " times",
                      paired(rows, scenario::migration, name::region, name::raw_calls)));
  return bars;
}

int run(const options& chosen, const bench::importers& others, int argc, char** argv) {
  const bench::settings settings = settings_of(chosen);
  const bench::peers peers =
      bench::peers_of(settings.device, static_cast<std::size_t>(chosen.devices) - 1);
  if (chosen.devices > 2 && peers.size() + 1 < static_cast<std::size_t>(chosen.devices))
    throw std::invalid_argument{std::to_string(peers.size()) +
                                " devices reach the memory of device " +
                                std::to_string(chosen.device) +
                                "; ask for as many and one more with "
                                "--devices"};
  const bench::origin origin = bench::print_origin(settings.device, chosen.machine, argc, argv);
  bench::results all{"sharing_bench"};
  for (const named_scenario& scenario : scenarios()) {
    const auto& only = chosen.only;
    if (!only.empty() && std::find(only.begin(), only.end(), scenario.name) == only.end()) continue;
    all.add(scenario.name, [&] { return scenario.measure(settings, peers, others); });
    // Now, because the next steps may end the program.
    if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, all.rows());
  }
  bench::print_table(all.rows());
  const std::vector<bench::bar> bars = judge(all.rows(), peers.size() + 1);
  bench::print_bars(bars);
  return all.failed() || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const named_scenario& scenario : scenarios()) names.emplace_back(scenario.name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures memory that devices and processes share, beside the raw HIP calls.",
               "sharing_bench"};
  options chosen;
  const auto size = [&](const char* option, std::size_t& value, const char* description) {
    app.add_option(option, value, description)->transform(CLI::AsSizeValue{false});
  };
  const auto count = [&](const char* option, int& value, const char* description) {
    app.add_option(option, value, description)->check(CLI::Range(1, 1000))->capture_default_str();
  };
  size("--step", chosen.step_bytes, "Size of the steps of growth (default: 64MiB)");
  size("--steps-bytes", chosen.steps_bytes, "Size the steps lead to (default: 1GiB)");
  count("--runs", chosen.runs, "Runs, in each of which the methods take turns");
  count("--repeats", chosen.repeats, "Samples of each method in each run");
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--devices", chosen.devices, "It and so many peers less one share the memory")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--importers", chosen.importers,
                 "Processes that growth is visible to: the first reads on the device, each further "
                 "one on the next device")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--only", chosen.only, "Scenarios to measure, with commas between them")
      ->delimiter(',')
      ->check(CLI::IsMember(scenario_names()));
  app.add_option("--machine", chosen.machine,
                 "What else the file is to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    // Before the first HIP call: a runtime that is already running does not survive fork.
    bench::importers others;
    for (int i = 0; i < chosen.importers; ++i)
      others.push_back(std::make_unique<bench::importer>(i));
    return run(chosen, others, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sharing_bench: %s\n", error.what());
    return 1;
  }
}
