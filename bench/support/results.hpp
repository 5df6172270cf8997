// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report.hpp"

namespace bench {

/// The rows of all scenarios of a run. A failure is reported on standard error under the name of
/// the program, and leaves the other rows.
class results {
 public:
  explicit results(const char* program) : program_{program} {}

  /// Adds the rows that `measure` gives.
  void add(const char* scenario, const std::function<std::vector<measurement>()>& measure);

  [[nodiscard]] const std::vector<measurement>& rows() const noexcept { return rows_; }
  /// Whether a scenario or a row has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  void complain(const std::string& what, const std::string& why);

  const char* program_;
  std::vector<measurement> rows_;
  bool failed_ = false;
};

}  // namespace bench
