// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <exception>
#include <fstream>
#include <iostream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>

#include <hipvmm/core/bytes.hpp>

// What the mains of programs for the shell have in common. In a header, since each of them compiles
// CLI11 as it is.
namespace hipvmm::tool {

/// Exit codes beside 0.
inline constexpr int failed = 1;
inline constexpr int misused = 2;

/// A size as parse_bytes reads it; none of the options means zero.
inline std::string size_in_bytes(const std::string& text) {
  try {
    if (const std::size_t bytes = parse_bytes(text); bytes != 0) return std::to_string(bytes);
  } catch (const std::logic_error&) {
  }
  throw CLI::ValidationError{"'" + text +
                             "' is no size; give bytes or units, as in 4194304 or 4MiB"};
}

/// Before the work, so that an unwritable place does not cost the result of a long run.
inline std::ofstream create_file(const std::string& path) {
  errno = 0;
  std::ofstream file{path};
  if (!file)
    throw std::system_error{errno, std::generic_category(), "cannot create '" + path + "'"};
  return file;
}

inline void write(std::ostream& out, const std::string& text, const std::string& where) {
  errno = 0;
  if (!(out << text << std::flush))
    throw std::system_error{errno, std::generic_category(), "cannot write the result to " + where};
}

/// Opens what is missing of descriptors 0 to 2 the wrong way round: a file or memory of HIP that is
/// opened later must not take the place of standard output, and using the missing one must fail.
inline void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    if (descriptor == STDOUT_FILENO)
      throw std::runtime_error{"standard output is closed; send it to a file or to /dev/null"};
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

/// Parses the command line and works. What goes wrong is one sentence on standard error, behind the
/// program's name, and one of the exit codes above.
template <typename Work>
int run_program(CLI::App& app, int argc, char** argv, Work work) {
  // A reader that went away shows as a failed write, which gets a sentence.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    occupy_standard_descriptors();
    app.parse(argc, argv);
    return work();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    std::cerr << app.get_name() << ": " << error.what() << " (see " << app.get_name()
              << " --help)\n";
    return misused;
  } catch (const std::exception& error) {
    std::cerr << app.get_name() << ": " << error.what() << '\n';
    return failed;
  }
}

}  // namespace hipvmm::tool
