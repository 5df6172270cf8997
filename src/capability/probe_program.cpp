// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "capability/probe_child.hpp"

namespace hipvmm::detail {
namespace {

using std::filesystem::path;

// HIPVMM_INSTALLED_PROBE is where the build would have it installed, which goes first. What is
// built or was moved after it was installed is found from where the library or the program lies.
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

/// Who else than root and this user could put another program at `file`: the first part of its path
/// that they may change. Empty where nobody can.
std::string changeable_by_others(const path& file) {
  for (path part = file;; part = part.parent_path()) {
    struct stat found {};
    if (::lstat(part.c_str(), &found) != 0) return part.string();
    const bool is_ours = found.st_uid == 0 || found.st_uid == ::geteuid();
    // In a sticky folder only owners replace what is theirs.
    const bool is_sticky = S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0;
    if (!is_ours || ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !is_sticky))
      return part.string();
    if (part == part.root_path()) return {};
  }
}

}  // namespace

probe_program find_probe_program() {
  // Who starts a program with rights of its own must not choose what it runs.
  if (::getauxval(AT_SECURE) != 0) return {{}, "a program with rights of its own starts no other"};
  if (const char* const named = std::getenv("HIPVMM_PROBE")) {
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
  return {{}, why_not};
}

}  // namespace hipvmm::detail
