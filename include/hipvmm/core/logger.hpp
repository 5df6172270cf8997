// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

namespace hipvmm {

/// How much a line of the debug log matters, as hipMM's levels; `off` is none of a line.
enum class log_level { trace, debug, info, warn, error, critical, off };

/// The debug log: what the library does with memory, in words. Lines go to the file that
/// HIPVMM_DEBUG_LOG_FILE names, behind what is there, else to standard error. What CMake's
/// HIPVMM_LOGGING_LEVEL is above is not compiled into the library, by default trace and debug.
/// With a file the level is info at first, without one off: what went wrong reaches the program as
/// an exception or by its error handler, and is not printed as well. Any thread may call.
class logger {
 public:
  logger(const logger&) = delete;
  logger& operator=(const logger&) = delete;

  /// From now on lines of `least` and above are written.
  void set_level(log_level least) noexcept;
  [[nodiscard]] log_level level() const noexcept;
  /// Whether a line of this level would be written.
  [[nodiscard]] bool should_log(log_level line) const noexcept {
    return line >= level() && line != log_level::off;
  }
  /// Writes a line, unless its level is below. The error handler is told the first time that fails.
  void log(log_level line, std::string_view text);
  /// Hands what is held back to the system. So far each line goes there at once, for programs that
  /// crash.
  void flush();

 private:
  struct state;
  friend logger& default_logger();
  logger();
  ~logger();

  std::unique_ptr<state> state_;
};

/// The debug log of the library and, if they like, of programs. It is there until the process ends.
logger& default_logger();

}  // namespace hipvmm
