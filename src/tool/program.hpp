// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "tool/output_file.hpp"

// What the mains of programs for the shell have in common. In a header, since each of them compiles
// CLI11 as it is.
namespace hipvmm::tool {

/// Exit codes beside 0.
inline constexpr int failed = 1;
inline constexpr int misused = 2;

/// A size as parse_bytes reads it, or zero.
inline std::string size_or_zero_in_bytes(const std::string& text) {
  try {
    return std::to_string(parse_bytes(text));
  } catch (const std::logic_error&) {
    throw CLI::ValidationError{"'" + text +
                               "' is no size; give bytes or units, as in 4194304 or 4MiB"};
  }
}

/// The same for options that do not mean zero.
inline std::string size_in_bytes(const std::string& text) {
  std::string bytes = size_or_zero_in_bytes(text);
  if (bytes == "0")
    throw CLI::ValidationError{"'" + text + "' is no byte; give more, as in 4194304 or 4MiB"};
  return bytes;
}

/// The file that a result goes to, created before the work; null where there is none, or where it
/// is standard output.
inline std::unique_ptr<output_file> file_for_result(const std::string& path) {
  return path.empty() || path == "-" ? nullptr : std::make_unique<output_file>(path);
}

/// Before any file is opened: none that is read, and none of another result, is written to.
inline void require_different(const std::vector<named_file>& inputs,
                              const std::vector<named_file>& outputs) {
  if (const std::string clash = clash_of(inputs, outputs); !clash.empty())
    throw CLI::ValidationError{clash};
}

/// None where the text is anything but one number.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

/// The option for a device. Whether there is that one, device_of finds out.
template <typename Ordinal>
CLI::Option* add_device_option(CLI::App& app, Ordinal& ordinal, const char* meaning) {
  const auto whole_number = [](const std::string& text) -> std::string {
    if (number_in<int>(text).value_or(-1) >= 0) return {};
    return "'" + text + "' is no device; they are numbered from 0";
  };
  return app.add_option("--device", ordinal, meaning)->check(whole_number)->type_name("N");
}

/// Throws: CLI::ValidationError when there is no such device; unsupported when there is none at
/// all.
inline device_ref device_of(int ordinal) {
  const device_ref device{ordinal};
  try {
    require_device(device);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError{"--device", error.what()};
  }
  return device;
}

/// An option that names the file of a result, or '-'.
inline CLI::Option* add_result_option(CLI::App& app, const char* name, std::string& path,
                                      const char* meaning) {
  const auto refuse_nothing = [](const std::string& named) {
    return std::string{named.empty() ? "name a file, or '-' for standard output" : ""};
  };
  return app.add_option(name, path, meaning)->check(refuse_nothing)->type_name("FILE");
}

inline void write_to_standard_output(const std::string& text) {
  errno = 0;
  if (!(std::cout << text << std::flush))
    throw std::system_error{errno, std::generic_category(),
                            "cannot write the result to standard output"};
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

/// CLI11 takes the next word for the value that `--json=` lacks, as where a variable is empty.
inline void refuse_missing_values(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view{argv[i]} != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') + 1 == word.size())
      throw CLI::ValidationError{std::string{word} + " lacks its value"};
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
    refuse_missing_values(argc, argv);
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
