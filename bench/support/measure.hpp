// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "bench/growth/grower.hpp"
#include "report.hpp"

namespace bench {

class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(clock::now() - start_).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_ = clock::now();
};

/// The options of a whole run of the program.
struct settings {
  hipvmm::device_ref device{0};
  std::size_t unit = 0;                    ///< granularity, of which all sizes are multiples
  std::size_t max_bytes = 0;               ///< the doubling ends here
  std::size_t step_bytes = 0;              ///< size of the equal steps
  std::size_t steps_bytes = 0;             ///< the equal steps end here
  int runs = 0;                            ///< runs, in each of which the methods take turns
  int repeats = 0;                         ///< samples of a fast method in each run
  int copy_runs = 0;                       ///< runs that sample growth by copying, which is slow
  std::vector<int> create_pauses_ms = {};  ///< between giving back and creating
  std::chrono::milliseconds pause{0};      ///< before each sample, outside its time
};

/// Looks at the device's free memory, outside the time, to tell how much a method holds at most.
class memory_probe {
 public:
  explicit memory_probe(hipvmm::device_ref device)
      : device_{device}, at_start_{device.free_memory()} {}
  void look();
  /// Most bytes held at one of the looks since the last call, or since the start.
  [[nodiscard]] std::size_t take_most();

 private:
  hipvmm::device_ref device_;
  std::size_t at_start_;
  std::size_t most_ = 0;
};

/// One way to do a scenario's work.
struct method {
  std::string name;
  int runs = 0;     ///< runs that sample it
  int repeats = 0;  ///< samples in each of them: one alone may be too short to be believed
  /// Does the work once on the current device, with a probe in the run before the first that
  /// counts, and returns the seconds of each step.
  std::function<std::vector<double>(memory_probe* probe)> run = {};
  std::string unavailable = {};  ///< why it cannot run; empty if it can
};

/// One way to grow.
struct growth_method {
  std::string name;
  std::function<std::unique_ptr<grower>(const peak_hook&)> make = {};
  bool copies = false;  ///< sampled in copy_runs, once in each
  bool writes = false;  ///< new bytes are written, and waited for, between the steps
  std::string unavailable = {};
};

/// The sizes first, 2 first, 4 first and so on up to max_bytes.
[[nodiscard]] std::vector<std::size_t> doubling(std::size_t first, std::size_t max_bytes);
/// The sizes step, 2 step, 3 step and so on up to max_bytes.
[[nodiscard]] std::vector<std::size_t> equal_steps(std::size_t step, std::size_t max_bytes);

/// Measures all methods in one run after the other, interleaved, so that drift in the machine
/// touches all of them. Each runs once before, which is not counted. The first is the baseline of
/// the ratios. A method that throws keeps its samples, with the reason in the note of its row.
[[nodiscard]] std::vector<measurement> measure(const measurement& scenario,
                                               const std::vector<method>& methods,
                                               const settings& chosen);

/// Measures growth through `sizes`: held after the first step, after the second and so on.
[[nodiscard]] std::vector<measurement> measure_growth(const std::string& scenario,
                                                      const std::vector<std::size_t>& sizes,
                                                      const std::vector<growth_method>& methods,
                                                      const settings& chosen);

}  // namespace bench
