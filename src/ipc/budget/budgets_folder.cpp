// SPDX-License-Identifier: MIT
#include "ipc/budget/budgets_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include <hipvmm/ipc/ipc_error.hpp>
#include "core/environment.hpp"

namespace hipvmm::detail {
namespace {

constexpr const char* parent = "/dev/shm";

std::string own_name() { return "hipvmm-budgets-" + std::to_string(::geteuid()); }

/// Other users may have folders of such names.
std::vector<std::string> own_folders(const owned_descriptor& shared) {
  const std::string name = own_name();
  std::vector<std::string> result;
  for (const std::string& each : entries_of(shared, parent)) {
    if (each != name && !each.starts_with(name + '-')) continue;
    struct stat about {};
    if (::fstatat(shared.get(), each.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(about.st_mode) && about.st_uid == ::geteuid())
      result.push_back(each);
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// A name that no process can take ahead.
std::string random_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    throw_system(errno, "getrandom", "a name");
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return own_name() + '-' + text;
}

/// Keeps the first folder with a budget, else the first. The others go if they are empty.
void remove_empty(const owned_descriptor& shared, const std::vector<std::string>& folders) {
  std::string kept;
  for (const std::string& each : folders) {
    const owned_descriptor folder{
        ::openat(shared.get(), each.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (kept.empty() && !folder.empty() && entries_of(folder, each).size() > 2) kept = each;
  }
  if (kept.empty()) kept = folders.front();
  for (const std::string& each : folders)
    if (each != kept) ::unlinkat(shared.get(), each.c_str(), AT_REMOVEDIR);
}

/// Empty if there is none and `makes` is false. Of two folders made at the same time one stays: a
/// process makes a budget in a folder only after it has seen no other.
std::string find_folder(bool makes) {
  const owned_descriptor shared{::open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (const int code = failure_of("open", shared.get()); code != 0)
    throw_system(code, "open", parent);
  for (int tries = 0; tries < 100; ++tries) {
    const std::vector<std::string> own = own_folders(shared);
    if (own.size() == 1) return std::string{parent} + '/' + own.front();
    if (own.size() > 1) {
      remove_empty(shared, own);
      continue;
    }
    if (!makes) return {};
    int code = failure_of("mkdir", ::mkdirat(shared.get(), own_name().c_str(), 0700));
    if (code == EEXIST)
      code = failure_of("mkdir", ::mkdirat(shared.get(), random_name().c_str(), 0700));
    if (code != 0 && code != EEXIST)
      throw_system(code, "mkdir", std::string{parent} + '/' + own_name());
  }
  refuse_budget(std::string{"this user has several folders "} + parent + '/' + own_name() +
                "*: remove all but one when no process uses them");
}

}  // namespace

std::vector<std::string> entries_of(const owned_descriptor& folder, const std::string& path) {
  owned_descriptor again{::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const std::unique_ptr<::DIR, int (*)(::DIR*)> entries{
      again.empty() ? nullptr : ::fdopendir(again.get()), ::closedir};
  if (!entries) throw_system(errno, "opendir", path);
  static_cast<void>(again.release());
  std::vector<std::string> result;
  while (const ::dirent* const entry = ::readdir(entries.get())) result.emplace_back(entry->d_name);
  return result;
}

void refuse_budget(const std::string& why) { throw ipc_error{ipc_failure::refused, why}; }

void require_own(const struct ::stat& about, const std::string& path) {
  if (about.st_uid != ::geteuid())
    refuse_budget(path + " belongs to user " + std::to_string(about.st_uid) +
                  " and not to this process's, " + std::to_string(::geteuid()) +
                  ": remove it, or name another folder in HIPVMM_BUDGETS");
  if ((about.st_mode & 0077) != 0)
    refuse_budget(path +
                  " may be used by other users: chmod go= it, or name another folder in "
                  "HIPVMM_BUDGETS");
}

budgets_folder open_budgets_folder(bool makes) {
  const char* const named = environment("HIPVMM_BUDGETS");
  const bool is_named = named != nullptr && *named != '\0';
  if (is_named && *named != '/')
    refuse_budget(std::string{"HIPVMM_BUDGETS names '"} + named +
                  "': give a path that is the same for all processes, from / on");
  budgets_folder result{{}, is_named ? named : find_folder(makes)};
  if (result.path.empty()) return result;
  if (is_named && makes) {
    const int code = failure_of("mkdir", ::mkdir(named, 0700));
    if (code != 0 && code != EEXIST) throw_system(code, "mkdir", result.path);
  }
  result.descriptor = owned_descriptor{
      ::open(result.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  const int code = failure_of("open", result.descriptor.get());
  // Another process may have removed one of two that were made at the same time.
  if (code == ENOENT && (!makes || !is_named)) return result;
  if (code == ELOOP || code == ENOTDIR)
    refuse_budget(result.path +
                  " is no folder: remove it, or name another folder in HIPVMM_BUDGETS");
  if (code != 0) throw_system(code, "open", result.path);
  struct stat about {};
  if (const int failed = failure_of("fstat", ::fstat(result.descriptor.get(), &about)); failed != 0)
    throw_system(failed, "fstat", result.path);
  require_own(about, result.path);
  return result;
}

}  // namespace hipvmm::detail
