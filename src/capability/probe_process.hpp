// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/descriptors.hpp"

namespace hipvmm::detail {

/// Runs a program that writes lines to its standard output; the destructor ends it. It inherits the
/// environment, and of descriptors its output alone (before glibc 2.34 also those without
/// close-on-exec). Ctrl-C does not reach it, because it is a process group of its own.
class probe_process {
 public:
  /// The first argument is the program's name for itself. Throws: std::system_error.
  probe_process(const std::string& program, const std::vector<std::string>& arguments);
  ~probe_process();
  probe_process& operator=(probe_process&&) = delete;

  enum class reading { line, end, late };
  /// Without the line end. `end`: of the output; `late`: after `patience`.
  reading read_line(std::string& line, std::chrono::milliseconds patience);

  struct ending {
    std::string how;            // as the end of a message
    bool from_outside = false;  // by a signal from others
  };
  ending end();                         ///< kills it if it runs
  static ending ending_of(int status);  ///< from wait()
  static bool sees_ends() noexcept;     ///< false if SIGCHLD is ignored

 private:
  pid_t process_ = -1;
  file_descriptor output_;
  std::string buffer_;
  bool at_end_ = false;
};

}  // namespace hipvmm::detail
