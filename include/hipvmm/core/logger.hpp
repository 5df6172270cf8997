// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include <hipvmm/version.hpp>  // IWYU pragma: keep: refuses compilers before C++17

namespace hipvmm {

/// Severity of a line of the debug log, like hipMM's levels. No line has the level `off`.
enum class log_level { trace, debug, info, warn, error, critical, off };

/// The debug log: lines about the library's memory operations.
/// - Lines are appended to the file that HIPVMM_DEBUG_LOG_FILE or else hipMM's RMM_DEBUG_LOG_FILE
///   names, and whose folders are made, else written to standard error.
/// - Levels below CMake's HIPVMM_LOGGING_LEVEL (by default trace and debug) are not compiled into
///   the library.
/// - The initial level is info with a file and off without one, because failures already reach the
///   program as exceptions or by its error handler. A library built with CMake's HIPVMM_RMM begins
///   with info in any case, as hipMM does.
/// Any thread may call it.
class logger {
 public:
  logger& operator=(logger&&) = delete;

  /// Enables lines of the level `least` and above from now on.
  void set_level(log_level least) noexcept;
  [[nodiscard]] log_level level() const noexcept;
  /// Returns whether a line of this level would be written.
  [[nodiscard]] bool should_log(log_level line) const noexcept {
    return line >= level() && line != log_level::off;
  }
  /// Writes a line, unless its level is disabled. The first failed write is reported to the error
  /// handler.
  void log(log_level line, std::string_view text);
  /// Flushes buffered lines to the system. So far nothing is buffered: each line is written at
  /// once, for programs that crash.
  void flush();

 private:
  struct state;
  friend logger& default_logger();
  logger();
  ~logger();

  std::unique_ptr<state> state_;
};

/// Returns the debug log of the library, which programs may use too. It lives until the process
/// ends.
logger& default_logger();

}  // namespace hipvmm
