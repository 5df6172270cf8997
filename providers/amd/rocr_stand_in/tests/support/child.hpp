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
  std::string errors;     // what it wrote to stderr
  /// Returns true where the process was stopped by a report that has the text.
  [[nodiscard]] bool reported(const std::string& text) const;
};

/// Each variable is "NAME=value", the name without HIPVMM_ROCR_.
outcome in_child(const std::vector<std::string>& variables, const std::function<void()>& run);

/// In the child: ends it with a message where `holds` is false.
void expect(bool holds, const char* what);

}  // namespace test

#define EXPECT(...) ::test::expect(static_cast<bool>(__VA_ARGS__), __FILE__ ": " #__VA_ARGS__)
