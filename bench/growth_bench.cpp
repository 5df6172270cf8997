// SPDX-License-Identifier: MIT
// What does it cost to grow a buffer in place: beside the HIP calls that no library can avoid, and
// beside allocating anew, copying and freeing?
//
// The number that would change a decision: a region above 1.10 times the raw calls for the same
// chunks means that the layers over HIP have to become thinner; a single copy means that growth is
// not what it promises. --enforce makes either a failure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/region.hpp>
#include "call_count.hpp"
#include "raw_hip_growth.hpp"
#include "report.hpp"

namespace {

using hipvmm::MiB;

constexpr double ratio_bar = 1.10;

struct options {
  std::size_t max_bytes = 4 * hipvmm::GiB;
  std::size_t step_bytes = 64 * MiB;
  int runs = 5;
  int repeats = 40;
  int copy_runs = 5;
  int device = 0;
  bool enforce = false;
  std::string csv;
};

/// A way to do the scenario's work once; `run` returns the seconds that count.
struct method {
  const char* name;
  int runs;     ///< runs that sample it
  int repeats;  ///< samples in each of them: one alone may be too short to be believed
  std::function<double()> run;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double grow_region(hipvmm::device_ref device, const std::vector<std::size_t>& sizes) {
  hipvmm::chunk_cache nothing_kept;  // each chunk is made, as the raw calls make theirs
  hipvmm::region region{device, sizes.back(), {hipvmm::handle_type::none, &nothing_kept}};
  const auto start = std::chrono::steady_clock::now();
  for (const std::size_t size : sizes) region.commit(0, size);
  return seconds_since(start);
}

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

/// Takes one sample, and with the first one counts its HIP calls, setting up and giving back too.
void sample(const method& method, bench::measurement& row) {
  const auto before = bench::hip_calls();
  row.seconds.push_back(method.run());
  const auto after = bench::hip_calls();
  if (before && after && !row.calls)
    row.calls = {after->all - before->all, after->copies - before->copies};
}

/// Measures all methods in one run after the other, interleaved, so that what drifts in the machine
/// touches all of them. The first method is the baseline of the ratios.
std::vector<bench::measurement> measure(const std::string& scenario, std::size_t steps,
                                        std::size_t bytes, const std::vector<method>& methods,
                                        const options& chosen) {
  std::vector<bench::measurement> rows;
  for (const method& each : methods) {
    rows.push_back({scenario, each.name, steps, bytes});
    if (each.repeats > 1) static_cast<void>(each.run());  // the first use of anything is slower
  }
  for (int run = 0; run < chosen.runs; ++run) {
    for (int repeat = 0; repeat < chosen.repeats; ++repeat) {
      for (std::size_t i = 0; i < methods.size(); ++i) {
        // Every other time in reverse: the method after a slow one finds other caches.
        const std::size_t at = repeat % 2 == 0 ? i : methods.size() - 1 - i;
        if (run < methods[at].runs && repeat < methods[at].repeats) sample(methods[at], rows[at]);
      }
    }
  }
  const double baseline = bench::summarize(rows.front().seconds).median;
  for (bench::measurement& row : rows) row.ratio = bench::summarize(row.seconds).median / baseline;
  return rows;
}

std::vector<bench::measurement> measure_growth(const std::string& scenario,
                                               const std::vector<std::size_t>& sizes,
                                               hipvmm::device_ref device, const options& chosen) {
  return measure(
      scenario, sizes.size(), sizes.back(),
      {{"raw calls", chosen.runs, chosen.repeats,
        [&] { return bench::grow_by_raw_calls(device, sizes); }},
       {"region", chosen.runs, chosen.repeats, [&] { return grow_region(device, sizes); }},
       {"copy", std::min(chosen.runs, chosen.copy_runs), 1,
        [&] { return bench::grow_by_copy(device, sizes); }}},
      chosen);
}

// Neither one byte repeated nor four, so that push_back is a copy as the baseline's is.
struct element {
  std::array<unsigned char, 256> bytes;
};

std::vector<bench::measurement> measure_push_back(std::size_t bytes, hipvmm::device_ref device,
                                                  const options& chosen) {
  element value = {};
  for (std::size_t i = 0; i < value.bytes.size(); ++i)
    value.bytes[i] = static_cast<unsigned char>(i);
  const std::size_t count = bytes / sizeof(element);
  const auto by_hand = [&](std::size_t first_bytes) {
    return bench::append_one_by_one(device, &value, sizeof value, count, first_bytes);
  };
  const auto by_vector = [&] {
    const hipvmm::stream stream{device};
    hipvmm::growable_device_vector<element> vector{device};
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) vector.push_back(value, stream);
    stream.synchronize();
    return seconds_since(start);
  };
  return measure("push_back", count, count * sizeof(element),
                 {{"no growth", chosen.runs, 1, [&] { return by_hand(count * sizeof(element)); }},
                  {"vector", chosen.runs, 1, by_vector},
                  {"copy", chosen.runs, 1, [&] { return by_hand(2 * MiB); }}},
                 chosen);
}

/// What the device can hold twice, for copying needs the old and the new at once.
std::size_t clamped(std::size_t wanted, hipvmm::device_ref device) {
  const std::size_t possible = device.free_memory() / 2;
  if (wanted <= possible) return wanted;
  std::printf("--max-bytes: %s become %s, half of what device %d has free\n",
              hipvmm::format_bytes(wanted).c_str(), hipvmm::format_bytes(possible).c_str(),
              device.ordinal());
  return possible;
}

/// Says which bar a region missed; returns whether it met both.
bool meets_bars(const std::vector<bench::measurement>& rows) {
  bool met = true;
  for (const bench::measurement& row : rows) {
    if (row.method != "region") continue;
    if (*row.ratio > ratio_bar) {
      std::fprintf(stderr,
                   "growth_bench: %s: a region costs %.3f times the raw calls, the bar is %.2f\n",
                   row.scenario.c_str(), *row.ratio, ratio_bar);
      met = false;
    }
    if (row.calls && row.calls->copies != 0) {
      std::fprintf(stderr, "growth_bench: %s: a region made %llu copies, the bar is none\n",
                   row.scenario.c_str(), static_cast<unsigned long long>(row.calls->copies));
      met = false;
    }
  }
  return met;
}

int run(const options& chosen, int argc, char** argv) {
  const hipvmm::device_ref device{chosen.device};
  hipvmm::require_device(device);
  const std::size_t unit = hipvmm::granularity_of(device).recommended;
  const std::size_t max_bytes = hipvmm::align_down(clamped(chosen.max_bytes, device), unit);
  const std::size_t step_bytes = hipvmm::align_up(chosen.step_bytes, unit);
  const std::size_t first = hipvmm::align_up(2 * MiB, unit);
  if (max_bytes < std::max(first, step_bytes))
    throw std::invalid_argument{hipvmm::format_bytes(max_bytes) +
                                " are less than one step; give "
                                "more with --max-bytes or less with --step"};

  const bench::origin origin = bench::describe_origin(
      std::string{HIPVMM_PROVIDER_NAME} + ", device " + std::to_string(device.ordinal()) + " (" +
          device.name() + ") with " + hipvmm::format_bytes(device.total_memory()),
      argc, argv);
  std::printf("%s | %s | %s\n%s\n\n", origin.date.c_str(), origin.machine.c_str(),
              origin.provider.c_str(), origin.command.c_str());

  std::vector<bench::measurement> rows;
  const auto add = [&](std::vector<bench::measurement> more) {
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  };
  add(measure_growth("doubling", doubling(first, max_bytes), device, chosen));
  add(measure_growth("+" + hipvmm::format_bytes(step_bytes), equal_steps(step_bytes, max_bytes),
                     device, chosen));
  add(measure_push_back(std::min(max_bytes, 64 * MiB), device, chosen));

  bench::print_table(rows);
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, rows);
  return meets_bars(rows) || !chosen.enforce ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures growth in place beside the raw HIP calls and beside growth by copying.",
               "growth_bench"};
  options chosen;
  app.add_option("--max-bytes", chosen.max_bytes, "Largest size to grow to (default: 4GiB)")
      ->transform(CLI::AsSizeValue{false});
  app.add_option("--step", chosen.step_bytes, "Size of the equal steps (default: 64MiB)")
      ->transform(CLI::AsSizeValue{false});
  app.add_option("--runs", chosen.runs, "Runs, in each of which the methods take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--repeats", chosen.repeats, "Samples of the region and the raw calls in each run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--copy-runs", chosen.copy_runs,
                 "Runs that sample growth by copying, which is slow")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "growth_bench: %s\n", error.what());
    return 1;
  }
}
