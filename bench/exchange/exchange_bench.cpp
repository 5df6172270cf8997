// SPDX-License-Identifier: MIT
// exchange() beside the steps of programs that must know how much they receive, and the cost of
// registering memory that grows. The questions are in exchange_methods.cpp and registration.cpp;
// --enforce makes a missed bar a failure.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "bench/support/bars.hpp"
#include "bench/support/report.hpp"
#include "bench/support/results.hpp"
#include "exchange_scenarios.hpp"

namespace {

struct options {
  std::string library = "threads";
  int ranks = 2;
  std::string only;
  bench::exchange_shape shape{64 * hipvmm::MiB, 2};
  bench::registration_shape registration{64 * hipvmm::MiB, 16};
  int runs = 5;
  int repeats = 4;
  bool enforce = false;
  std::string machine;
  std::string csv;

  [[nodiscard]] bool takes(const char* part) const { return only.empty() || only == part; }
};

std::vector<double> times_of_known(const std::vector<bench::measurement>& rows,
                                   const char* method) {
  const bench::measurement* const row = bench::row_of(rows, bench::scenario::exchange, method);
  return row == nullptr ? std::vector<double>{} : row->pairs;
}

std::optional<double> held(const std::vector<bench::measurement>& rows, const char* method) {
  const bench::measurement* const row = bench::row_of(rows, bench::scenario::exchange, method);
  if (row == nullptr) return {};
  return row->figures.at("held_per_received");
}

std::vector<bench::bar> judge(const std::vector<bench::measurement>& rows) {
  using namespace bench;
  return {
      at_most("exchange in kept memory, beside a transfer of known counts", 1.05, " times",
              times_of_known(rows, name::kept)),
      at_most("exchange: held at most for each byte received", 1.05, " times",
              held(rows, name::fresh)),
      told("exchange in new memory, beside a transfer of known counts", " times",
           times_of_known(rows, name::fresh)),
      told("worst case preallocated, the same", " times", times_of_known(rows, name::worst_case)),
      told("count, reallocate and copy, the same", " times", times_of_known(rows, name::copied))};
}

/// Rank 0 reports.
int report(const options& chosen, const bench::results& all, const bench::origin& origin,
           const bench::exchange_rank& rank) {
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, all.rows());
  bench::print_table(all.rows());
  for (const bench::measurement& each : all.rows()) {
    if (!each.gigabytes_per_second) continue;
    std::printf("%-34s %-34s %.2f GB/s received", each.scenario.c_str(), each.method.c_str(),
                *each.gigabytes_per_second);
    const auto held = each.figures.find("held_per_received");
    if (held != each.figures.end()) std::printf(", %.3f bytes held for each", held->second);
    std::printf("\n");
  }
  std::vector<bench::bar> bars;
  if (chosen.takes("exchange")) bars = judge(all.rows());
  if (chosen.takes("registration"))
    for (bench::bar& each : bench::judge_registration(all.rows(), rank))
      bars.push_back(std::move(each));
  bench::print_bars(bars);
  return all.failed() || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

int run(const options& chosen, int argc, char** argv) {
  int status = 0;
  const auto measure = [&](const bench::exchange_rank& rank) {
    bench::settings settings;
    settings.device = rank.ranks.device();
    settings.unit = hipvmm::granularity_of(settings.device).minimum;
    settings.runs = chosen.runs;
    settings.repeats = chosen.repeats;
    const bool is_first = rank.ranks.rank() == 0;
    bench::origin origin;
    if (is_first) {
      std::printf("%s\n", rank.ranks.describe().c_str());
      origin = bench::print_origin(settings.device, chosen.machine, argc, argv);
    }
    bench::results all{"exchange_bench"};
    if (chosen.takes("exchange"))
      all.add("exchange", [&] { return bench::measure_exchange(settings, chosen.shape, rank); });
    if (chosen.takes("registration"))
      all.add("registration",
              [&] { return bench::measure_registration(settings, chosen.registration, rank); });
    if (is_first)
      status = report(chosen, all, origin, rank);
    else if (all.failed())
      throw std::runtime_error{"rank " + std::to_string(rank.ranks.rank()) + " has failed"};
  };
  bench::run_exchange_ranks(chosen.library, chosen.ranks, chosen.takes("registration"), measure);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures exchange() beside transfers of known counts, and the registration of "
      "memory that grows.",
      "exchange_bench"};
  options chosen;
  app.add_option("--over", chosen.library, "What the ranks talk by: threads, nccl or mpi")
      ->check(CLI::IsMember({"threads", "nccl", "mpi"}))
      ->capture_default_str();
  app.add_option("--only", chosen.only, "Measure this alone: exchange or registration")
      ->check(CLI::IsMember({"exchange", "registration"}));
  const auto count = [&](const char* option, int& value, const char* description) {
    app.add_option(option, value, description)->check(CLI::Range(1, 10000))->capture_default_str();
  };
  count("--ranks", chosen.ranks, "Ranks; over MPI as many as mpirun starts");
  count("--rounds", chosen.shape.rounds, "Transfers, each of which appends to what has come");
  count("--runs", chosen.runs, "Runs, in each of which the methods take turns");
  count("--repeats", chosen.repeats, "Samples of each method in each run");
  app.add_option("--bytes", chosen.shape.bytes, "Bytes that each rank sends (default: 64MiB)")
      ->transform(CLI::AsSizeValue{false});
  app.add_flag("--skewed", chosen.shape.skewed, "Rank 0 receives half of what all send");
  count("--chunks", chosen.registration.chunks, "Chunks that are registered");
  app.add_option("--chunk", chosen.registration.bytes,
                 "Bytes of a registered chunk (default: 64MiB)")
      ->transform(CLI::AsSizeValue{false});
  app.add_option("--machine", chosen.machine,
                 "What else the file is to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_bench: %s\n", error.what());
    return 1;
  }
}
