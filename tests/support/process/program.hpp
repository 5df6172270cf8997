// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::test {

/// The surroundings of a program, besides its arguments.
struct surroundings {
  std::string standard_input = {};  ///< piped in, in pieces of many sizes
  bool non_blocking_input = false;  ///< its reads may find nothing yet
  bool terminal_input = false;      ///< standard input is a terminal
  bool terminal_errors = false;     ///< standard error is a terminal
  bool closed_output = false;       ///< no standard output at all
  bool deserted_output = false;     ///< standard output is a pipe that nobody reads
  std::string output_file = {};     ///< standard output goes here instead of to `outcome`
  bool plain_user = false;          ///< may not read files that permissions forbid, even as root
  std::vector<std::string> environment = {};  ///< NAME=value, added to this process's own
};

/// The end of a program and its output.
struct outcome {
  int status;  ///< exit status, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

/// Runs a program to its end.
[[nodiscard]] outcome run(const std::string& path, const std::vector<std::string>& arguments,
                          const surroundings& given = {});

/// Checks that a program's output is one line, which begins so and has all `words`.
void check_sentence(const std::string& written, const std::string& begin,
                    const std::vector<std::string>& words);

/// Bytes without a pattern that a wrong offset could hide behind; the same on every call.
[[nodiscard]] std::string arbitrary_bytes(std::size_t count);

/// A file that is there as long as the object; its name ends in `suffix`.
class temporary_file {
 public:
  explicit temporary_file(const std::string& contents = {}, const std::string& suffix = {});
  ~temporary_file();
  temporary_file& operator=(temporary_file&&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string contents() const;

 private:
  std::string path_;
};

}  // namespace hipvmm::test
