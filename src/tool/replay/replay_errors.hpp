// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include "tool/replay/replay_failures.hpp"

namespace hipvmm::tool {

/// Collects the library's reports while it lives, from any thread; reports that were not taken go
/// to the former handler. One at a time.
class report_recorder {
 public:
  report_recorder() : previous_{set_error_handler(record)} {}
  ~report_recorder() {
    set_error_handler(previous_);
    for (const report& each : take()) previous_(each.call, each.code, each.message.c_str());
  }
  report_recorder(const report_recorder&) = delete;
  report_recorder& operator=(const report_recorder&) = delete;

  void move_to(replay_failures& failures) {
    for (const report& each : take())
      failures.add(std::string{each.call} + " failed: " + each.message + " (" +
                   std::to_string(each.code) + ")");
  }

  static void record(const char* call, int code, const char* message) noexcept {
    const std::lock_guard lock{mutex};
    reports.push_back({call, code, message});
  }

 private:
  struct report {
    const char* call;
    int code;
    std::string message;
  };

  static std::vector<report> take() {
    const std::lock_guard lock{mutex};
    return std::exchange(reports, {});
  }

  // The handler is a plain function: its target cannot belong to one recorder.
  static inline std::mutex mutex;
  static inline std::vector<report> reports;

  error_handler previous_;
};

}  // namespace hipvmm::tool
