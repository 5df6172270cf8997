// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include <hipvmm/core/error.hpp>

namespace hipvmm::test {

/// A call of the error handler.
struct recorded_error {
  std::string call;
  int code;
  std::string message;
};

/// Replaces the error handler while it lives and keeps the calls of the handler. One at a time.
class error_recorder {
 public:
  error_recorder() : previous_{set_error_handler(record)} { clear(); }
  ~error_recorder() { set_error_handler(previous_); }
  error_recorder& operator=(error_recorder&&) = delete;

  [[nodiscard]] std::vector<recorded_error> errors() const {
    const std::lock_guard lock{mutex};
    return recorded;
  }
  [[nodiscard]] std::size_t count() const { return errors().size(); }
  void clear() {
    const std::lock_guard lock{mutex};
    recorded.clear();
  }

 private:
  static void record(const char* call, int code, const char* message) noexcept {
    const std::lock_guard lock{mutex};
    recorded.push_back({call, code, message});
  }

  // The handler is a plain function: its target cannot belong to one recorder.
  static inline std::mutex mutex;
  static inline std::vector<recorded_error> recorded;

  error_handler previous_;
};

/// An error handler that ends the process, with status 5.
inline void end_process(const char* /*call*/, int /*code*/, const char* /*message*/) noexcept {
  std::exit(5);
}

}  // namespace hipvmm::test
