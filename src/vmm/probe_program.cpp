// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "vmm/probe_child.hpp"

namespace hipvmm::detail {
namespace {

using std::filesystem::path;

// HIPVMM_INSTALLED_PROBE is where the build would have it installed. What is built or was moved
// after it was installed is found from where the program or the library lies.
std::vector<path> places() {
  std::vector<path> folders;
  std::error_code error;
  if (const path program = std::filesystem::read_symlink("/proc/self/exe", error); !error)
    folders.push_back(program.parent_path());
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&find_probe_program), &library) != 0 &&
      library.dli_fname != nullptr)
    if (const path file = std::filesystem::canonical(library.dli_fname, error); !error)
      folders.push_back(file.parent_path());
  std::vector<path> result;
  for (const path& each : folders)
    for (const char* from : {"", "../bin", "../libexec/hipvmm", "../../libexec/hipvmm"})
      result.push_back(each / from / "hipvmm-probe");
  result.emplace_back(HIPVMM_INSTALLED_PROBE);
  return result;
}

}  // namespace

probe_program find_probe_program() {
  // A program with rights of its own runs nothing that its caller names.
  if (const char* const named = ::secure_getenv("HIPVMM_PROBE")) {
    if (std::string{named} == "none") return {{}, "HIPVMM_PROBE=none forbids a process for it"};
    if (::access(named, X_OK) != 0)
      return {{}, std::string{"HIPVMM_PROBE names "} + named + ", which is no program"};
    return {named, {}};
  }
  for (const path& each : places())
    if (::access(each.c_str(), X_OK) == 0) return {each.string(), {}};
  return {{},
          "the program hipvmm-probe was not found beside the program or the library; HIPVMM_PROBE "
          "names it"};
}

}  // namespace hipvmm::detail
