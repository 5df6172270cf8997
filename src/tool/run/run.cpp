// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <hipvmm/version.hpp>
#include "core/environment.hpp"
#include "tool/program.hpp"

namespace {

namespace tool = hipvmm::tool;
using std::filesystem::path;

struct options {
  std::string threshold;
  std::string most;
  std::string free;
  std::string statistics;
  std::string json;
  std::string conf;
  std::string library;
  bool off = false;
  bool print = false;
};

constexpr int not_executable = 126;
constexpr int not_found = 127;

void declare(CLI::App& app, options& chosen) {
  app.add_option("--threshold", chosen.threshold, "Smaller allocations go to HIP itself")
      ->transform(tool::size_or_zero_in_bytes, "")
      ->type_name("SIZE");
  app.add_option("--most", chosen.most, "Larger allocations go to HIP itself")
      ->transform(tool::size_in_bytes, "")
      ->type_name("SIZE");
  app.add_option("--free", chosen.free, "Whether hipFree waits for the device, as HIP's does")
      ->check(tool::one_of({"waits", "returns"}))
      ->type_name("waits|returns");
  tool::add_result_option(app, "--statistics", chosen.statistics,
                          "At the exit write the replaced calls to stderr, standard output (-) or "
                          "a file; %p is the process")
      ->type_name("stderr|-|FILE");
  tool::add_result_option(app, "--json", chosen.json, "The same as JSON")
      ->type_name("stderr|-|FILE");
  app.add_option("--conf", chosen.conf,
                 "Options of the pools, as HIPVMM_CONF has them: pool.release_threshold=1GiB")
      ->check(tool::not_empty("name an option, such as pool.maximum=1GiB"))
      ->type_name("TEXT");
  app.add_flag("--off", chosen.off, "Replace nothing, for comparison");
  app.add_option("--library", chosen.library, "Another libhipvmm_preload.so")
      ->check(tool::not_empty("name a file"))
      ->type_name("FILE");
  app.add_flag("--print", chosen.print, "Print the variables instead of running the program");
  app.set_version_flag("--version", "hipvmm-run " HIPVMM_VERSION_STRING);
  app.prefix_command();
  app.footer(
      "The program and its arguments come last: hipvmm-run --statistics stderr PROGRAM "
      "ARGUMENTS... Options that are given replace all that HIPVMM_PRELOAD says. The exit status "
      "is the program's; 127 if there is no such program, 126 if it cannot be started, 2 if an "
      "option or variable is wrong and 1 if the libraries cannot be loaded. See "
      "docs/guides/preload.md.");
}

std::string settings_of(const options& chosen) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    if (value.find(',') != std::string::npos)
      throw CLI::ValidationError{"--" + std::string{name}, "'" + value + "' has a comma"};
    text += (text.empty() ? "" : ",") + std::string{name} + "=" + value;
  };
  add("threshold", chosen.threshold);
  add("most", chosen.most);
  add("free", chosen.free);
  // The program may be in another folder when it ends.
  const auto file = [](const std::string& name) {
    return name.empty() || name == "stderr" || name == "-"
               ? name
               : std::filesystem::absolute(name).string();
  };
  add("statistics", file(chosen.statistics));
  add("json", file(chosen.json));
  if (!chosen.off) return text;
  if (!text.empty()) throw CLI::ValidationError{"--off", "nothing else can be said with it"};
  return "off";
}

path library_of(const options& chosen) {
  if (!chosen.library.empty()) return std::filesystem::absolute(chosen.library);
  const path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const path library = folder / HIPVMM_LIBRARIES_FROM_PROGRAMS / "libhipvmm_preload.so";
  if (std::filesystem::exists(library)) return std::filesystem::canonical(library);
  const path built = folder.parent_path() / "lib" / "libhipvmm_preload.so";
  if (std::filesystem::exists(built)) return std::filesystem::canonical(built);
  throw std::runtime_error{library.lexically_normal().string() +
                           " is not there; --library names it"};
}

// The first byte of the child's answer.
constexpr std::string_view fits = "0";
constexpr std::string_view failed_mark = "1";
constexpr std::string_view misused_mark = "2";

void* open_library(const path& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error{::dlerror()};
  return library;
}

/// Throws: std::runtime_error unless both libraries can be loaded here, with their provider, and
/// are of this version. ld.so would only warn, and the program would run without them.
void require_fit(const path& library) {
  if (library.string().find_first_of(" :") != std::string::npos)
    throw std::runtime_error{"LD_PRELOAD cannot name " + library.string() +
                             ": there is a space or a colon in it"};
  const auto version =
      reinterpret_cast<const char* (*)()>(::dlsym(open_library(library), "hipvmm_preload_version"));
  if (version == nullptr || std::strcmp(version(), HIPVMM_VERSION_STRING) != 0)
    throw std::runtime_error{library.string() + " is of version " +
                             (version == nullptr ? "unknown" : version()) +
                             ", this program of " HIPVMM_VERSION_STRING};
  static_cast<void>(open_library(library.parent_path() / "libhipvmm_preload_core.so"));
}

/// As require_fit(). Throws also: CLI::ValidationError if HIPVMM_PRELOAD or HIPVMM_CONF cannot be
/// obeyed on device 0. A child checks, so that nothing that HIP does reaches the program.
void require_fit_in_child(const path& library) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error{errno, std::generic_category(), "pipe"};
  const ::pid_t child = ::fork();
  if (child == 0) {
    std::string said{fits};
    try {
      const auto problem = reinterpret_cast<const char* (*)()>(
          ::dlsym(open_library(library.parent_path() / "libhipvmm_preload_core.so"),
                  "hipvmm_preload_problem"));
      if (const char* const why = problem == nullptr ? nullptr : problem())
        said = std::string{misused_mark} + why;
    } catch (const std::exception& error) {
      said = std::string{failed_mark} + error.what();
    }
    const ::ssize_t written = ::write(ends[1], said.data(), said.size());
    ::_exit(written == static_cast<::ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  std::array<char, 4096> part{};
  ::ssize_t got = 0;
  while (child > 0 &&
         ((got = ::read(ends[0], part.data(), part.size())) > 0 || (got < 0 && errno == EINTR)))
    if (got > 0) said.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  if (child < 0) throw std::system_error{errno, std::generic_category(), "fork"};
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (said == fits) return;
  if (said.starts_with(misused_mark)) throw CLI::ValidationError{said.substr(misused_mark.size())};
  throw std::runtime_error{said.empty() ? library.string() + " ended the process that loaded it"
                                        : said.substr(failed_mark.size())};
}

int start(const CLI::App& app, const options& chosen) {
  std::vector<std::string> words = app.remaining();
  if (!words.empty() && words.front() == "--")
    words.erase(words.begin());
  else if (!words.empty() && words.front().starts_with('-'))
    throw CLI::ValidationError{tool::unknown_option(app, words.front())};
  if (words.empty() && !chosen.print) throw CLI::ValidationError{"PROGRAM is missing"};
  const std::string settings = settings_of(chosen);
  const path library = library_of(chosen);
  require_fit(library);
  // Behind existing libraries: a sanitizer must be first.
  const char* const before = hipvmm::detail::environment("LD_PRELOAD");
  std::vector<std::pair<const char*, std::string>> variables{
      {"LD_PRELOAD", before == nullptr || *before == '\0'
                         ? library.string()
                         : std::string{before} + ":" + library.string()}};
  if (!settings.empty()) variables.emplace_back("HIPVMM_PRELOAD", settings);
  if (!chosen.conf.empty()) variables.emplace_back("HIPVMM_CONF", chosen.conf);
  std::string text;
  for (const auto& [name, value] : variables) {
    if (::setenv(name, value.c_str(), 1) != 0)
      throw std::system_error{errno, std::generic_category(), name};
    text += std::string{name} + '=' + tool::printable(value) + '\n';
  }
  require_fit_in_child(library);
  if (chosen.print) {
    tool::write_to_standard_output(text);
    return 0;
  }
  std::vector<char*> arguments;
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  tool::inherited.restore();
  ::execvp(arguments.front(), arguments.data());
  const int error = errno;
  tool::write_error("hipvmm-run", words.front() + ": " + std::generic_category().message(error));
  return error == ENOENT ? not_found : not_executable;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs a program and serves its hipMalloc, hipFree and so on from hipvmm's pools.",
               "hipvmm-run"};
  options chosen;
  declare(app, chosen);
  return hipvmm::tool::run_program(
      app, argc, argv, [&] { return start(app, chosen); }, hipvmm::tool::needs_output::no);
}
