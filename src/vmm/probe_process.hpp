// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace hipvmm::detail {

/// A program that writes lines to its standard output, and is ended with this object. It inherits
/// the environment, and no descriptor but those three, of which only the output leads anywhere
/// (before glibc 2.34 also those that are not closed on exec). It is a process group of its own:
/// Ctrl-C in the application's terminal does not reach it.
class probe_process {
 public:
  /// Starts `program`. Throws: std::system_error.
  probe_process(const std::string& program, const std::vector<std::string>& arguments);
  ~probe_process();
  probe_process(const probe_process&) = delete;
  probe_process& operator=(const probe_process&) = delete;

  enum class reading { line, end, late };
  /// Reads the next line, without its end, within `patience`. `end` is that of the output.
  reading read_line(std::string& line, std::chrono::milliseconds patience);

  struct ending {
    std::string how;            // the rest of a sentence: "crashed by signal 11 (...)"
    bool from_outside = false;  // by a signal that is not what it did itself
  };
  /// Kills the program unless it has ended, and says how it ended.
  ending end();
  /// How a process ended whose status wait() returned.
  static ending ending_of(int status);
  /// Whether the system reports ends of children: not while SIGCHLD is ignored.
  static bool sees_ends() noexcept;

 private:
  pid_t process_ = -1;
  int output_ = -1;
  std::string buffer_;
  bool at_end_ = false;  // of the output
};

}  // namespace hipvmm::detail
