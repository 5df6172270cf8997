// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::detail {

/// While it lives, what this thread has to tell the error handler waits for its end. For whoever
/// holds a lock that the handler may want: made before the lock is taken, it ends after it.
class held_reports {
 public:
  held_reports() noexcept;
  ~held_reports();
  held_reports(const held_reports&) = delete;
  held_reports& operator=(const held_reports&) = delete;

  /// Keeps a report back if one of these lives in this thread; false when the caller must tell it.
  static bool keep(const char* call, int code, const char* message) noexcept;

 private:
  struct kept {
    std::string call;
    int code;
    std::string message;
  };
  std::vector<kept> kept_;
  held_reports* around_;
};

}  // namespace hipvmm::detail
