// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::detail {

/// The name of a hipError_t, such as "hipErrorUnknown".
const char* error_name(int code) noexcept;

/// Calls the error handler, or keeps the report while a reports_wait of this thread exists.
void deliver(const char* call, int code, const char* message) noexcept;

/// Returns whether the error handler is the default, which writes to standard error.
[[nodiscard]] bool is_default_error_handler() noexcept;

/// Reports for the error handler that threads make while a lock is held. The destructor delivers
/// them after the lock is released: the handler may use the library. One thread at a time adds.
class held_reports {
 public:
  held_reports() = default;
  ~held_reports();
  held_reports(const held_reports&) = delete;
  held_reports& operator=(const held_reports&) = delete;
  /// Keeps a report. Returns false, nothing kept, when there is no memory for it: it is then
  /// delivered at once.
  bool add(const char* call, int code, const char* message) noexcept;

 private:
  struct held_report {
    std::string call;
    int code;
    std::string message;
  };
  std::vector<held_report> reports_;
};

/// While this object lives, reports of its thread for the error handler go to `place`.
class reports_wait {
 public:
  explicit reports_wait(held_reports& place) noexcept;
  ~reports_wait();
  reports_wait(const reports_wait&) = delete;
  reports_wait& operator=(const reports_wait&) = delete;

 private:
  held_reports* before_;
};

}  // namespace hipvmm::detail
