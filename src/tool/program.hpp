// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/text/nearest_name.hpp"
#include "tool/output_file.hpp"
#include "tool/printable.hpp"

// Common parts of the programs for the shell. A header, because each program compiles CLI11.
namespace hipvmm::tool {

inline constexpr int failed = 1;
inline constexpr int misused = 2;

/// The handlers before change(), for a program that this process becomes.
struct inherited_signals {
  void (*broken_pipe)(int) = SIG_DFL;
  void (*file_size)(int) = SIG_DFL;

  void change() {
    // Without a reader, or beyond the limit of a file's length, a write then fails.
    broken_pipe = std::signal(SIGPIPE, SIG_IGN);
    file_size = std::signal(SIGXFSZ, SIG_IGN);
  }
  void restore() const {
    std::signal(SIGPIPE, broken_pipe);
    std::signal(SIGXFSZ, file_size);
  }
};
inline inherited_signals inherited;

/// A size as parse_bytes reads it, or zero.
inline std::string size_or_zero_in_bytes(const std::string& text) {
  try {
    return std::to_string(parse_bytes(text));
  } catch (const std::logic_error&) {
    throw CLI::ValidationError{"'" + text +
                               "' is no size; give bytes or units, as in 4194304 or 4MiB"};
  }
}

inline std::string size_in_bytes(const std::string& text) {
  std::string bytes = size_or_zero_in_bytes(text);
  if (bytes == "0")
    throw CLI::ValidationError{"'" + text + "' is no byte; give more, as in 4194304 or 4MiB"};
  return bytes;
}

inline std::unique_ptr<output_file> file_for_result(const std::string& path) {
  return path.empty() || path == "-" ? nullptr : std::make_unique<output_file>(path);
}

/// Call it before any file is opened: no result may overwrite an input or another result.
inline void require_different(const std::vector<named_file>& inputs,
                              const std::vector<named_file>& outputs) {
  if (const std::string clash = clash_of(inputs, outputs); !clash.empty())
    throw CLI::ValidationError{clash};
}

/// nullopt if the text is not exactly one number.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

inline auto one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    return "there is no '" + text + "'; " + detail::name_advice(text, names);
  };
}

template <typename Ordinal>
CLI::Option* add_device_option(CLI::App& app, Ordinal& ordinal, const char* meaning) {
  const auto whole_number = [](const std::string& text) -> std::string {
    if (number_in<int>(text).value_or(-1) >= 0) return {};
    return "'" + text + "' is no device; they are numbered from 0";
  };
  return app.add_option("--device", ordinal, meaning)->check(whole_number)->type_name("N");
}

/// Throws: CLI::ValidationError if there is no such device; unsupported if there is none at all.
inline device_ref device_of(int ordinal) {
  const device_ref device{ordinal};
  try {
    require_device(device);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError{"--device", error.what()};
  }
  return device;
}

/// A variable that is not set leaves an empty value.
inline auto not_empty(const char* remedy) {
  return [remedy](const std::string& value) { return std::string{value.empty() ? remedy : ""}; };
}

inline CLI::Option* add_result_option(CLI::App& app, const char* name, std::string& path,
                                      const char* meaning) {
  return app.add_option(name, path, meaning)
      ->check(not_empty("name a file, or '-' for standard output"))
      ->type_name("FILE");
}

/// Without a reader this process ends as others do: by SIGPIPE, without a message.
inline void write_to_standard_output(const std::string& text) {
  errno = 0;
  if (std::cout << printable(text, "\n\t") << std::flush) return;
  const int error = errno;
  if (error == EPIPE) {
    inherited.restore();
    std::raise(SIGPIPE);  // returns if it is ignored
  }
  throw std::system_error{error, std::generic_category(),
                          "cannot write the result to standard output"};
}

inline void write_result(const std::unique_ptr<output_file>& file, const std::string& text) {
  file ? file->write(text) : write_to_standard_output(text);
}

inline void write_error(const std::string& program, const std::string& text) {
  std::cerr << program << ": " << printable(text) << '\n';
}

enum class needs_output { yes, no };

/// Opens missing descriptors of 0 to 2 for the opposite direction, so that use of them fails, and
/// no file or memory of HIP that is opened later takes their place. They are missing again in a
/// program that this process becomes.
inline void occupy_standard_descriptors(needs_output output) {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    if (descriptor == STDOUT_FILENO && output == needs_output::yes)
      throw std::runtime_error{"standard output is closed; send it to a file or to /dev/null"};
    static_cast<void>(
        ::open("/dev/null", (descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
  }
}

/// CLI11 takes the next word for the value that `--json=` lacks, as it does with an empty variable.
/// Words behind the name of another program are not checked.
inline void refuse_missing_values(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view{argv[i]} != "--"; ++i) {
    const std::string word = argv[i];
    if (app.get_prefix_command() && !word.starts_with('-')) return;
    if (word.starts_with("--") && word.find('=') + 1 == word.size())
      throw CLI::ValidationError{word + " lacks its value"};
    const CLI::Option* const option = app.get_option_no_throw(word);
    if (app.get_prefix_command() && option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
}

/// "there is no option '--devise'; did you mean --device?"
inline std::string unknown_option(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* each : app.get_options())
    for (const std::string& spelling : each->get_lnames())
      known.push_back(std::string{"--"}.append(spelling));
  const std::string nearest = detail::nearest_name(name, known);
  return "there is no option '" + name + "'" +
         (app.get_subcommands({}).empty() ? "" : " before the subcommand") +
         (nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

inline std::string unknown_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> subcommands;
  for (const CLI::App* each : app.get_subcommands({})) subcommands.push_back(each->get_name());
  return subcommands.empty()
             ? "'" + word + "' is one word too many"
             : "there is no subcommand '" + word + "'; " + detail::name_advice(word, subcommands);
}

/// Without words that may be the value of an unknown option.
inline std::string unknown_words(const CLI::App& app) {
  if (app.get_prefix_command()) return {};  // they are another program's
  std::string options;
  std::string words;
  std::vector<const CLI::App*> parsed{&app};
  for (const CLI::App* each : app.get_subcommands()) parsed.push_back(each);
  for (const CLI::App* each : parsed) {
    for (const std::string& word : each->remaining()) {
      if (word == "--") continue;
      const bool is_option = word.size() > 1 && word.front() == '-';
      if (!is_option && options.empty() && !each->get_subcommands({}).empty())
        return unknown_word(*each, word);
      std::string& text = is_option ? options : words;
      text += (text.empty() ? "" : ", and ") +
              (is_option ? unknown_option(*each, word) : unknown_word(*each, word));
    }
  }
  return options.empty() ? words : options;
}

/// Parses, and runs `work`. A failure is one line on standard error and an exit code from above.
template <typename Work>
int run_program(CLI::App& app, int argc, char** argv, Work work,
                needs_output output = needs_output::yes) {
  inherited.change();
  try {
    occupy_standard_descriptors(output);
    refuse_missing_values(app, argc, argv);
    app.parse(argc, argv);
    return work();
  } catch (const CLI::Success& help) {
    const int status = app.exit(help);
    if (std::cout.flush()) return status;
    write_error(app.get_name(), "cannot write to standard output");
    return failed;
  } catch (const CLI::Error& error) {
    std::string text = unknown_words(app);
    if (text.empty()) text = error.what();
    // "--device: 1 required N missing"
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing"))
      text = text.substr(0, text.find(':')) + " lacks its value";
    write_error(app.get_name(), text + " (see " + app.get_name() + " --help)");
    return misused;
  } catch (const std::exception& error) {
    write_error(app.get_name(), error.what());
    return failed;
  }
}

}  // namespace hipvmm::tool
