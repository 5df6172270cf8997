// SPDX-License-Identifier: MIT
// Measures all allocations and deallocations of whole recorded programs, on our pool and on its
// rivals, in the same run.
//
// If the pool takes longer than the fastest other contender, or holds more than the bars of
// trace_bars.cpp allow, its design has to change. --enforce makes a missed bar a failure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "bench/support/results.hpp"
#include "trace_measure.hpp"
#include "trace_process.hpp"
#include "trace_report.hpp"

namespace {

constexpr int most_repeats = 1000;

struct options {
  std::vector<std::string> traces;
  std::vector<std::string> allocators;
  std::vector<std::string> only;
  int repeats = 5;
  std::size_t epochs = 2;
  int pause_ms = 300;
  bool busy = false;
  std::size_t busy_bytes = std::size_t{1} << 20;
  int device = 0;
  bool no_torch = false;
  bool enforce = false;
  std::string machine;
  std::string csv;
  std::string markdown;
  std::string serve;
};

/// The files that are named, and those of named folders.
std::vector<std::string> trace_files(const std::vector<std::string>& named) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& each : named) {
    if (!fs::is_directory(each)) {
      files.push_back(fs::absolute(each).string());
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator{each}) {
      const std::string path = fs::absolute(entry.path()).string();
      if (path.ends_with(".csv") || path.ends_with(".csv.gz")) files.push_back(path);
    }
  }
  if (files.empty())
    throw std::invalid_argument{"there is no trace; name files or folders with .csv or .csv.gz"};
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<bench::trace_contender> contenders_of(const options& chosen,
                                                  hipvmm::device_ref device) {
  std::vector<bench::trace_contender> all = bench::library_contenders(device);
  const auto add = [&all](std::vector<bench::trace_contender> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(bench::rmm_contenders());
  const bool on_cuda = std::string{HIPVMM_PROVIDER_NAME} == "cuda";
  if (on_cuda && !chosen.no_torch) add(bench::torch_contenders(device));
  for (const std::string& library : chosen.allocators)
    all.push_back(bench::process_contender(std::filesystem::path{library}.stem().string(),
                                           std::filesystem::absolute(library).string(), device));
  if (chosen.only.empty()) return all;
  std::vector<bench::trace_contender> result;
  for (const std::string& name : chosen.only) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
    if (found == all.end()) {
      std::string names;
      for (const bench::trace_contender& each : all)
        names += (names.empty() ? "" : ", ") + each.name;
      throw std::invalid_argument{"--only: '" + name + "' is not here; there are " + names};
    }
    result.push_back(*found);
  }
  return result;
}

// Deallocation cannot throw: the library's handler gets its failures.
std::atomic<int> reported{0};
void count_reported(const char* call, int code, const char* message) noexcept {
  ++reported;
  std::fprintf(stderr, "trace_bench: %s gave %d: %s\n", call, code, message);
}

int run(const options& chosen, int argc, char** argv) {
  if (!chosen.serve.empty()) return bench::serve_allocator(chosen.serve, chosen.device);
  const std::vector<std::string> files = trace_files(chosen.traces);
  const hipvmm::device_ref device{chosen.device};
  hipvmm::require_device(device);
  bench::trace_settings settings;
  settings.common.device = device;
  settings.common.runs = 1;
  settings.common.repeats = chosen.repeats;
  settings.common.pause = std::chrono::milliseconds{chosen.pause_ms};
  settings.epochs = chosen.epochs;
  if (chosen.busy) settings.busy_bytes = chosen.busy_bytes;
  const bench::origin origin = bench::print_origin(device, chosen.machine, argc, argv);
  const std::vector<bench::trace_contender> contenders = contenders_of(chosen, device);
  hipvmm::set_error_handler(count_reported);
  bench::results all{"trace_bench"};
  for (const std::string& file : files) {
    all.add(file.c_str(), [&] {
      return bench::measure_trace(hipvmm::tool::read_trace(file), contenders, settings);
    });
    // Now, because the next steps may end the program.
    if (!chosen.csv.empty()) bench::write_trace_csv(chosen.csv, origin, all.rows());
    if (!chosen.markdown.empty())
      bench::write_trace_markdown(chosen.markdown, origin, all.rows(),
                                  bench::judge_traces(all.rows()));
  }
  bench::print_trace_table(all.rows());
  const std::vector<bench::bar> bars = bench::judge_traces(all.rows());
  bench::print_bars(bars);
  return all.failed() || reported != 0 || (chosen.enforce && bench::any_missed(bars)) ? 1 : 0;
}

void add_options(CLI::App& app, options& chosen) {
  app.add_option("TRACE", chosen.traces, "Traces as hipvmm-replay reads them, or folders of them");
  app.add_option("--repeats", chosen.repeats, "Repetitions, in which the contenders take turns")
      ->check(CLI::Range(1, most_repeats))
      ->capture_default_str();
  app.add_option("--epochs", chosen.epochs,
                 "Replays of the trace in each repetition, the first on a fresh allocator")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--pause-ms", chosen.pause_ms,
                 "Wait before each replay, in which the driver clears what the one before released")
      ->check(CLI::Range(0, 60000))
      ->capture_default_str();
  app.add_flag("--busy", chosen.busy, "Fill each block in its stream right after its allocation");
  app.add_option("--busy-bytes", chosen.busy_bytes,
                 "Most bytes to fill of each block (default: 1MiB)")
      ->transform(CLI::AsSizeValue{false})
      ->check(CLI::PositiveNumber)
      ->needs("--busy");
  app.add_option("--only", chosen.only, "Contenders to measure, with commas between their names")
      ->delimiter(',');
  app.add_flag("--no-torch", chosen.no_torch, "Leave PyTorch out, which is looked for on CUDA");
  app.add_option(
         "--allocator", chosen.allocators,
         "Libraries with the functions of bench/trace/trace_allocator.h, to measure as well")
      ->check(CLI::ExistingFile)
      ->delimiter(',');
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--machine", chosen.machine,
                 "What else the files are to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_option("--markdown", chosen.markdown, "Write tables for a page to this file");
  app.add_flag("--enforce", chosen.enforce, "Fail when a bar is missed");
  // For the processes that trace_process.cpp starts.
  app.add_option("--serve", chosen.serve)->group("");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Replays whole traces on the pool, on hipMallocAsync and, where they are, on RMM and "
      "PyTorch.",
      "trace_bench"};
  options chosen;
  add_options(app, chosen);
  CLI11_PARSE(app, argc, argv);
  // A serving process that went away shows as a failed write, which becomes a note.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trace_bench: %s\n", error.what());
    return 1;
  }
}
