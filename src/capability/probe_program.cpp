// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "capability/probe_child.hpp"
#include "core/environment.hpp"

namespace hipvmm::detail {
namespace {

using std::filesystem::path;

// Near the library or program: built there, or moved after installation.
std::vector<path> places() {
  std::vector<path> result{HIPVMM_INSTALLED_PROBE};
  std::vector<path> folders;
  std::error_code error;
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&find_probe_program), &library) != 0 &&
      library.dli_fname != nullptr)
    if (const path file = std::filesystem::canonical(library.dli_fname, error); !error)
      folders.push_back(file.parent_path());
  if (const path program = std::filesystem::read_symlink("/proc/self/exe", error); !error)
    folders.push_back(program.parent_path());
  for (const path& each : folders)
    for (const char* from : {"", "../bin", "../libexec/hipvmm", "../../libexec/hipvmm"})
      result.push_back(each / from / "hipvmm-probe");
  return result;
}

/// The first part by which others may replace `file`; empty if only root and this user can.
std::string changeable_by_others(const path& file) {
  for (path part = file;; part = part.parent_path()) {
    struct stat found {};
    if (::lstat(part.c_str(), &found) != 0) return part.string();
    const bool is_ours = found.st_uid == 0 || found.st_uid == ::geteuid();
    // Only owners replace files in a sticky folder.
    const bool is_sticky = S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0;
    if (!is_ours || ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !is_sticky))
      return part.string();
    if (part == part.root_path()) return {};
  }
}

/// Whether the library is part of the running program, and no loader named before it started it.
bool is_linked_in() {
  if (::getauxval(AT_BASE) == 0) return false;
  Dl_info program{};
  Dl_info own{};
  return ::dladdr(reinterpret_cast<const void*>(::getauxval(AT_PHDR)), &program) != 0 &&
         ::dladdr(reinterpret_cast<const void*>(&probe_main), &own) != 0 &&
         program.dli_fbase == own.dli_fbase;
}

std::optional<int> ordinal_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns in a child; this process reports how that ends, and ends alike.
void watch_child() {
  const ::pid_t watching = ::getpid();
  const ::pid_t child = ::fork();
  if (child < 0) return;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != watching) ::_exit(1);
    return;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) say_end_of_child(status);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

[[noreturn]] void answer_request(int argc, char** argv) {
  // No core of a crash, and no probe outlives its caller.
  constexpr rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Before the runtime starts, which does not survive a fork().
  const bool watches = argc == 5 && std::string_view{argv[4]} == watch_option;
  if (watches) watch_child();
  require_device(device_ref{0});
  const std::optional<int> device = argc > 1 ? ordinal_in(argv[1]) : std::nullopt;
  const bool without = (argc == 4 || watches) && std::string_view{argv[2]} == "--without";
  if (!device || (argc != 2 && !without)) {
    std::string words;
    for (int i = 1; i < argc; ++i) words.append(i == 1 ? "'" : " ").append(argv[i]);
    throw std::invalid_argument{(words.empty() ? "no device is named" : words + "' is no request") +
                                "; usage: hipvmm-probe DEVICE [--without NAME,... [--watch]]"};
  }
  run_as_child(device_ref{*device}, without ? argv[3] : "");
  // Skips destructors: probes lose memory on purpose, and runtimes may hang there.
  std::fflush(stdout);
  ::_exit(0);
}

/// Turns a program that contains the library into the probe, before the program's constructors.
[[gnu::constructor(101)]] void be_probe_of_own_program(int argc, char** argv) noexcept {
  if (argc < 1 || argv == nullptr || argv[0] == nullptr || own_probe_name != argv[0]) return;
  if (::getauxval(AT_SECURE) != 0) return;
  ::_exit(probe_main(argc, argv));
}

}  // namespace

probe_program find_probe_program() {
  if (::getauxval(AT_SECURE) != 0) return {{}, "a program with rights of its own starts no other"};
  if (const char* const named = environment("HIPVMM_PROBE"); named != nullptr && *named != '\0') {
    if (std::string{named} == "none") return {{}, "HIPVMM_PROBE=none forbids a process for it"};
    if (::access(named, X_OK) != 0)
      return {{}, std::string{"HIPVMM_PROBE names "} + named + ", which is no program"};
    return {named, {}};
  }
  std::string why_not =
      "the program hipvmm-probe was not found where it is installed, nor beside the library or the "
      "program; HIPVMM_PROBE names it";
  for (const path& each : places()) {
    std::error_code error;
    const path file = std::filesystem::canonical(each, error);
    if (error || ::access(file.c_str(), X_OK) != 0) continue;
    const std::string part = changeable_by_others(file);
    if (part.empty()) return {file.string(), {}};
    why_not = file.string() + " is not started, for other users may change " + part +
              "; HIPVMM_PROBE names the program to start";
  }
  if (is_linked_in()) return {own_program, {}};
  return {{}, why_not};
}

int probe_main(int argc, char** argv) noexcept {
  try {
    answer_request(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipvmm-probe: %s\n", error.what());
    return dynamic_cast<const std::invalid_argument*>(&error) == nullptr ? 1 : 2;
  }
}

}  // namespace hipvmm::detail
