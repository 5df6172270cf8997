// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "call_count.hpp"

namespace bench {

struct summary {
  double median;
  double min;
  double max;
  double lower_quartile;
  double upper_quartile;
};

/// Pre: `samples` is not empty.
[[nodiscard]] summary summarize(std::vector<double> samples);
/// The sample below which `share` of all lie, such as 0.99; between two of them in proportion.
/// Pre: `samples` is not empty.
[[nodiscard]] double quantile(std::vector<double> samples, double share);

/// One method in one scenario.
struct measurement {
  std::string scenario;
  std::string method;
  std::size_t steps = 0;
  std::size_t bytes = 0;                 ///< held at the end; in a pool's scenario, of a request
  std::vector<double> seconds = {};      ///< of all steps, one for each sample
  std::vector<std::size_t> turns = {};   ///< the turn that each sample was taken in
  std::optional<double> ratio = {};      ///< of the median to that of the scenario's baseline
  std::vector<double> pairs = {};        ///< as paired_ratios, to the scenario's baseline
  std::optional<call_count> calls = {};  ///< of one sample
  std::vector<std::vector<double>> step_seconds = {};  ///< of each step, one list a sample
  std::vector<std::size_t> step_bytes = {};            ///< held after each step
  std::vector<std::size_t> step_held = {};     ///< most memory taken from the device in each step
  std::optional<std::size_t> peak_bytes = {};  ///< the most of these
  std::optional<double> share = {};            ///< of `bytes` in the memory free at the start
  std::optional<double> gigabytes_per_second = {};       ///< 10^9 bytes, read and written
  std::optional<double> best_gigabytes_per_second = {};  ///< of the fastest sample
  int threads = 1;                                       ///< that do it at the same time
  std::map<std::string, double> figures = {};            ///< others, by name: those of trace_bench
  std::string note = {};                                 ///< such as why there are no samples
  bool failed = false;                                   ///< the note says how
};

/// The row of a method in a scenario; nullptr if it was not measured or has no samples.
[[nodiscard]] const measurement* row_of(const std::vector<measurement>& rows,
                                        const std::string& scenario, const std::string& method);

/// How many times as long as `fast` did `slow` take: one ratio for each turn that sampled both, so
/// that drift in the machine is in both halves of it.
[[nodiscard]] std::vector<double> paired_ratios(const measurement& slow, const measurement& fast);

/// Seconds of single steps, over the samples: of each sample its median step, and its worst.
struct step_summary {
  summary median;
  summary worst;
};

/// None if steps were not timed one by one.
[[nodiscard]] std::optional<step_summary> summarize_steps(const measurement& row);

/// The origin of figures; they mean nothing without it.
struct origin {
  std::string date;
  std::string machine;
  std::string provider;
  std::string command;
};

[[nodiscard]] origin describe_origin(const std::string& provider, int argc, char** argv);
/// The same for figures of a device, with `machine` added, printed as well.
[[nodiscard]] origin print_origin(hipvmm::device_ref device, const std::string& machine, int argc,
                                  char** argv);

/// A cell of CSV that holds any text.
[[nodiscard]] std::string quoted(const std::string& text);
/// Throws: std::system_error when the bytes written to `file` are not at `path`.
void require_written(std::ofstream& file, const std::string& path);

void print_table(const std::vector<measurement>& rows);

/// Throws: std::system_error when the file cannot be written.
void write_csv(const std::string& path, const origin& origin, const std::vector<measurement>& rows);

/// One line for each step of each method that times its steps: for a plot.
/// Throws: std::system_error when the file cannot be written.
void write_steps_csv(const std::string& path, const std::vector<measurement>& rows);

}  // namespace bench
