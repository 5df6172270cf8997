// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "call_count.hpp"

namespace bench {

struct summary {
  double median;
  double min;
  double max;
};

/// Pre: `samples` is not empty.
[[nodiscard]] summary summarize(std::vector<double> samples);

/// One method in one scenario.
struct measurement {
  std::string scenario;
  std::string method;
  std::size_t steps = 0;
  std::size_t bytes = 0;                 ///< held at the end
  std::vector<double> seconds = {};      ///< of all steps, one for each sample
  std::optional<double> ratio = {};      ///< of the median to that of the scenario's baseline
  std::optional<call_count> calls = {};  ///< of one sample
};

/// Where figures come from; they mean nothing without it.
struct origin {
  std::string date;
  std::string machine;
  std::string provider;
  std::string command;
};

[[nodiscard]] origin describe_origin(const std::string& provider, int argc, char** argv);

void print_table(const std::vector<measurement>& rows);

/// Throws: std::system_error when the file cannot be written.
void write_csv(const std::string& path, const origin& origin, const std::vector<measurement>& rows);

}  // namespace bench
