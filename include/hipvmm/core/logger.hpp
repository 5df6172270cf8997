// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include <hipvmm/version.hpp>  // IWYU pragma: keep: refuses compilers before C++17

namespace hipvmm {

enum class log_level { trace, debug, info, warn, error, critical, off };

/// The debug log: lines about the library's memory operations. Any thread may call it.
/// - Lines are appended to the file that HIPVMM_DEBUG_LOG_FILE or else hipMM's RMM_DEBUG_LOG_FILE
///   names; the logger makes its folders. Without a name they go to standard error.
/// - The library's lines below CMake's HIPVMM_LOGGING_LEVEL (default: info) are not compiled in.
/// - The initial level is info if a file is named (or with CMake's HIPVMM_RMM), otherwise off.
class logger {
 public:
  logger& operator=(logger&&) = delete;

  void set_level(log_level least) noexcept;
  [[nodiscard]] log_level level() const noexcept;
  [[nodiscard]] bool should_log(log_level line) const noexcept {
    return line >= level() && line != log_level::off;
  }
  /// Drops lines of disabled levels. The first failed write is reported to the error handler.
  void log(log_level line, std::string_view text);
  /// Each line is written at once; nothing is left to flush.
  void flush();

 private:
  struct state;
  friend logger& default_logger();
  logger();
  ~logger();

  std::unique_ptr<state> state_;
};

/// It lives until the process ends.
logger& default_logger();

}  // namespace hipvmm
