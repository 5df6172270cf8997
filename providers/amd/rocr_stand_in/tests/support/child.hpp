// SPDX-License-Identifier: MIT
// Runs a piece of a test in a process of its own: with other knobs, and to see how it ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace test {

struct outcome {
  bool finished = false;  // the function returned
  int signal = 0;         // that ended the process
  std::string errors;     // its stderr
  /// Returns true if a report that has the text stopped the process.
  [[nodiscard]] bool reported(const std::string& text) const;
};

/// Each variable is "NAME=value", the name without HIPVMM_ROCR_.
outcome in_child(const std::vector<std::string>& variables, const std::function<void()>& run);

/// Ends the child with a message if `holds` is false.
void expect(bool holds, const char* what);

}  // namespace test

#define EXPECT(...) ::test::expect(static_cast<bool>(__VA_ARGS__), __FILE__ ": " #__VA_ARGS__)
