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
/// close-on-exec). It is a process group of its own: Ctrl-C in the application's terminal does not
/// reach it.
class probe_process {
 public:
  /// The first of `arguments` is the name that `program` is started by. Throws: std::system_error.
  probe_process(const std::string& program, const std::vector<std::string>& arguments);
  ~probe_process();
  probe_process& operator=(probe_process&&) = delete;

  enum class reading { line, end, late };
  /// Reads the next line, without its line end. `end`: of the output; `late`: after `patience`.
  reading read_line(std::string& line, std::chrono::milliseconds patience);

  struct ending {
    std::string how;            // the end of a sentence: "crashed by signal 11 (...)"
    bool from_outside = false;  // by a signal that it did not cause itself
  };
  ending end();                         ///< kills the program unless it has ended
  static ending ending_of(int status);  ///< `status`: from wait()
  static bool sees_ends() noexcept;  ///< whether the system reports them: not if SIGCHLD is ignored

 private:
  pid_t process_ = -1;
  file_descriptor output_;
  std::string buffer_;
  bool at_end_ = false;  // of the output
};

}  // namespace hipvmm::detail
