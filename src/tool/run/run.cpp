// SPDX-License-Identifier: MIT
// hipvmm-run: runs a program whose hipMalloc, hipFree and so on are served by hipvmm's pools.
#include <dlfcn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

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

void declare(CLI::App& app, options& chosen) {
  app.add_option("--threshold", chosen.threshold, "Smaller allocations go to HIP itself")
      ->transform(tool::size_or_zero_in_bytes, "")
      ->type_name("SIZE");
  app.add_option("--most", chosen.most, "Larger allocations go to HIP itself")
      ->transform(tool::size_in_bytes, "")
      ->type_name("SIZE");
  app.add_option("--free", chosen.free, "Whether hipFree waits for the device, as HIP's does")
      ->check(CLI::IsMember({"waits", "returns"}))
      ->type_name("waits|returns");
  app.add_option("--statistics", chosen.statistics,
                 "At the exit write what was replaced to stderr or a file; %p is the process")
      ->type_name("stderr|FILE");
  app.add_option("--json", chosen.json, "The same as JSON")->type_name("stderr|FILE");
  app.add_option("--conf", chosen.conf,
                 "Options of the pools, as HIPVMM_CONF has them: pool.release_threshold=1GiB")
      ->type_name("TEXT");
  app.add_flag("--off", chosen.off, "Replace nothing, for comparison");
  app.add_option("--library", chosen.library, "Another libhipvmm_preload.so")->type_name("FILE");
  app.add_flag("--print", chosen.print, "Print the variables instead of running the program");
  app.set_version_flag("--version", "hipvmm-run " HIPVMM_VERSION_TEXT);
  app.prefix_command();
  app.footer(
      "The program and its arguments come last: hipvmm-run --statistics stderr PROGRAM "
      "ARGUMENTS... "
      "Options that are given replace all that HIPVMM_PRELOAD says. The exit status is the "
      "program's, 1 where it cannot be started and 2 where an option is wrong. See "
      "docs/guides/preload.md.");
}

/// HIPVMM_PRELOAD as the options have it; empty where none is given.
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
    return name.empty() || name == "stderr" ? name : std::filesystem::absolute(name).string();
  };
  add("statistics", file(chosen.statistics));
  add("json", file(chosen.json));
  if (!chosen.off) return text;
  if (!text.empty()) throw CLI::ValidationError{"--off", "nothing else can be said with it"};
  return "off";
}

/// Where it lies beside this program: installed, and in the build.
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

void* open_library(const path& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error{::dlerror()};
  return library;
}

/// Throws: std::runtime_error unless both libraries can be loaded here, with their provider, and
/// are of this version. ld.so would only warn, and the program run as without.
void require_fit(const path& library) {
  if (library.string().find_first_of(" :") != std::string::npos)
    throw std::runtime_error{"LD_PRELOAD cannot name " + library.string() +
                             ": there is a space or a colon in it"};
  const auto version =
      reinterpret_cast<const char* (*)()>(::dlsym(open_library(library), "hipvmm_preload_version"));
  if (version == nullptr || std::strcmp(version(), HIPVMM_VERSION_TEXT) != 0)
    throw std::runtime_error{library.string() + " is of version " +
                             (version == nullptr ? "unknown" : version()) +
                             ", this program of " HIPVMM_VERSION_TEXT};
  static_cast<void>(open_library(library.parent_path() / "libhipvmm_preload_core.so"));
}

void set_variable(const options& chosen, const char* name, const std::string& value) {
  if (chosen.print) std::cout << name << '=' << value << '\n';
  if (::setenv(name, value.c_str(), 1) != 0)
    throw std::system_error{errno, std::generic_category(), name};
}

int start(const options& chosen, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "--")
    words.erase(words.begin());
  else if (!words.empty() && words.front().starts_with('-'))
    throw CLI::ValidationError{words.front(), "there is no option of that name"};
  if (words.empty() && !chosen.print) throw CLI::ValidationError{"PROGRAM is missing"};
  const std::string settings = settings_of(chosen);
  const path library = library_of(chosen);
  require_fit(library);
  // Behind what is there: a sanitizer must be first.
  const char* const before = std::getenv("LD_PRELOAD");
  set_variable(chosen, "LD_PRELOAD",
               before == nullptr || *before == '\0' ? library.string()
                                                    : std::string{before} + ":" + library.string());
  if (!settings.empty()) set_variable(chosen, "HIPVMM_PRELOAD", settings);
  if (!chosen.conf.empty()) set_variable(chosen, "HIPVMM_CONF", chosen.conf);
  if (chosen.print) {
    tool::write_to_standard_output("");
    return 0;
  }
  std::vector<char*> arguments;
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  // What run_program() set for this program only.
  std::signal(SIGPIPE, SIG_DFL);
  ::execvp(arguments.front(), arguments.data());
  throw std::system_error{errno, std::generic_category(), words.front()};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs a program whose hipMalloc, hipFree and so on hipvmm's pools serve.",
               "hipvmm-run"};
  options chosen;
  declare(app, chosen);
  return hipvmm::tool::run_program(app, argc, argv, [&] { return start(chosen, app.remaining()); });
}
