// SPDX-License-Identifier: MIT
#include "ipc/budget/budget_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>  // IWYU pragma: keep
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include <hipvmm/ipc/ipc_error.hpp>
#include "ipc/protocol_step.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto lock_patience = 5s;

[[noreturn]] void refuse(const std::string& why) { throw ipc_error{ipc_failure::refused, why}; }

bool is_allowed(char letter) noexcept {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
}

bool is_budget_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= max_budget_name && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

std::string folder_path() {
  if (const char* const named = ::secure_getenv("HIPVMM_BUDGETS");
      named != nullptr && *named != 0) {
    if (*named != '/')
      refuse(std::string{"HIPVMM_BUDGETS names '"} + named +
             "': give a path that is the same for all processes, from / on");
    return named;
  }
  return "/dev/shm/hipvmm-budgets-" + std::to_string(::geteuid());
}

std::string file_name(const budget_key& key) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result = key.name + '@';
  for (const unsigned char each : key.device.bytes) {
    result += digits[each / 16];
    result += digits[each % 16];
  }
  return result;
}

/// Throws: ipc_error where others could write there.
void require_own(const struct stat& about, const std::string& path) {
  if (about.st_uid != ::geteuid())
    refuse(path + " belongs to user " + std::to_string(about.st_uid) +
           " and not to this process's, " + std::to_string(::geteuid()) +
           ": remove it, or name another folder in HIPVMM_BUDGETS");
  if ((about.st_mode & 0077) != 0)
    refuse(path +
           " may be used by other users: chmod go= it, or name another folder in "
           "HIPVMM_BUDGETS");
}

/// The folder; empty where there is none and `makes` is false.
owned_descriptor open_folder(bool makes) {
  const std::string path = folder_path();
  if (makes) {
    const int code = failure_of("mkdir", ::mkdir(path.c_str(), 0700));
    if (code != 0 && code != EEXIST) throw_system(code, "mkdir", path);
  }
  owned_descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  const int code = failure_of("open", folder.get());
  if (code == ENOENT && !makes) return {};
  if (code == ELOOP || code == ENOTDIR)
    refuse(path + " is no folder: remove it, or name another folder in HIPVMM_BUDGETS");
  if (code != 0) throw_system(code, "open", path);
  struct stat about {};
  if (const int failed = failure_of("fstat", ::fstat(folder.get(), &about)); failed != 0)
    throw_system(failed, "fstat", path);
  require_own(about, path);
  return folder;
}

/// An existing file; empty where there is none.
owned_descriptor open_file(const owned_descriptor& folder, const std::string& name) {
  owned_descriptor file{::openat(folder.get(), name.c_str(),
                                 O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  const int code = failure_of("openat", file.get());
  if (code == ENOENT) return {};
  const std::string path = folder_path() + '/' + name;
  if (code == ELOOP) refuse(path + " is a symbolic link: remove it");
  if (code != 0) throw_system(code, "openat", path);
  struct stat about {};
  if (const int failed = failure_of("fstat", ::fstat(file.get(), &about)); failed != 0)
    throw_system(failed, "fstat", path);
  require_own(about, path);
  if (!S_ISREG(about.st_mode) || about.st_size != static_cast<::off_t>(sizeof(budget_layout)))
    refuse(path + " is no budget of this version of hipvmm: remove it when no process uses it");
  return file;
}

/// Makes a file that appears whole or not at all. Does nothing where there is one already.
void make_file(const owned_descriptor& folder, const std::string& name, const budget_key& key,
               std::uint64_t limit) {
  const std::string path = folder_path() + '/' + name;
  const owned_descriptor file{
      ::openat(folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (const int code = failure_of("create", file.get()); code != 0)
    throw_system(code, "openat(O_TMPFILE)", path);
  // Memory for all of it now: where there is none later, a store would end the process.
  const int planned = protocol_step("posix_fallocate");
  if (const int code =
          planned != 0 ? planned : ::posix_fallocate(file.get(), 0, sizeof(budget_layout));
      code != 0)
    throw_system(code, "posix_fallocate", path);
  budget_header header{};
  header.magic = budget_magic;
  header.version = budget_version;
  header.records = max_budget_processes;
  header.pid_namespace = own_pid_namespace();
  header.device = key.device.bytes;
  std::copy(key.name.begin(), key.name.end(), header.name.begin());
  header.limit = limit;
  const ::ssize_t written = ::pwrite(file.get(), &header, sizeof(header), 0);
  const int code = failure_of("pwrite", written == sizeof(header) ? 0 : -1);
  if (code != 0) throw_system(code, "pwrite", path);
  const std::string open = "/proc/self/fd/" + std::to_string(file.get());
  const int linked = failure_of(
      "linkat", ::linkat(AT_FDCWD, open.c_str(), folder.get(), name.c_str(), AT_SYMLINK_FOLLOW));
  if (linked != 0 && linked != EEXIST) throw_system(linked, "linkat", path);
}

void lock(const owned_descriptor& file, const std::string& path) {
  const deadline until = deadline_in(lock_patience);
  while (true) {
    const int code = failure_of("flock", ::flock(file.get(), LOCK_EX | LOCK_NB));
    if (code == 0) return;
    if (code != EWOULDBLOCK && code != EINTR) throw_system(code, "flock", path);
    if (std::chrono::steady_clock::now() >= until)
      throw ipc_error{ipc_failure::timeout,
                      path +
                          " has been locked for seconds by another process, which may be "
                          "stopped: let it go on, or end it"};
    std::this_thread::sleep_for(1ms);
  }
}

bool is_still_there(const owned_descriptor& folder, const std::string& name,
                    const owned_descriptor& file) {
  struct stat open {};
  struct stat there {};
  return ::fstat(file.get(), &open) == 0 &&
         ::fstatat(folder.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

}  // namespace

void require_budget_name(const std::string& name) {
  if (!is_budget_name(name))
    throw std::invalid_argument{
        "'" + name + "' is no name of a budget: use 1 to " + std::to_string(max_budget_name) +
        " letters, digits, '.', '_' and '-', of which '.' is not the first"};
}

budget_file::budget_file(owned_descriptor folder, std::string name, owned_descriptor file)
    : folder_{std::move(folder)}, name_{std::move(name)}, file_{std::move(file)} {}

budget_file::~budget_file() {
  if (shared_ != nullptr) ::munmap(static_cast<void*>(shared_), sizeof(budget_layout));
}

void budget_file::map() {
  const std::string path = folder_path() + '/' + name_;
  const int planned = protocol_step("mmap");
  void* const mapped = planned != 0 ? MAP_FAILED
                                    : ::mmap(nullptr, sizeof(budget_layout), PROT_READ | PROT_WRITE,
                                             MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) throw_system(planned != 0 ? planned : errno, "mmap", path);
  shared_ = static_cast<budget_layout*>(mapped);
  const budget_header& header = shared_->header;
  if (header.magic != budget_magic || header.version != budget_version ||
      header.records != max_budget_processes)
    refuse(path + " is no budget of this version of hipvmm: remove it when no process uses it");
  const budget_key key{{header.name.begin(), std::find(header.name.begin(), header.name.end(), 0)},
                       {header.device}};
  if (!is_budget_name(key.name) || file_name(key) != name_)
    refuse(path + " says that it is budget '" + (is_budget_name(key.name) ? key.name : "?") +
           "', which is not its name: remove it when no process uses it");
  if (header.pid_namespace != own_pid_namespace())
    refuse(path +
           " was made in another PID namespace, such as another container's, so that no "
           "process can tell which of the others have died: share the namespace, give each "
           "its own folder by HIPVMM_BUDGETS, or remove the file when no process uses it");
}

std::unique_ptr<budget_file> budget_file::open(const budget_key& key, std::uint64_t limit) {
  require_budget_name(key.name);
  const std::string name = file_name(key);
  // Again where another process removed the file between open and lock.
  for (int tries = 0; tries < 100; ++tries) {
    owned_descriptor folder = open_folder(limit != 0);
    if (folder.empty()) return nullptr;
    owned_descriptor file = open_file(folder, name);
    if (file.empty() && limit == 0) return nullptr;
    if (file.empty()) {
      make_file(folder, name, key, limit);
      file = open_file(folder, name);
      if (file.empty()) continue;
    }
    lock(file, folder_path() + '/' + name);
    if (!is_still_there(folder, name, file)) continue;
    std::unique_ptr<budget_file> result{new budget_file{std::move(folder), name, std::move(file)}};
    result->map();
    return result;
  }
  refuse(folder_path() + '/' + name + " is made and removed again and again");
}

std::unique_ptr<budget_file> budget_file::look_at(const std::string& file) {
  owned_descriptor folder = open_folder(false);
  if (folder.empty()) return nullptr;
  owned_descriptor opened = open_file(folder, file);
  if (opened.empty()) return nullptr;
  std::unique_ptr<budget_file> result{new budget_file{std::move(folder), file, std::move(opened)}};
  result->map();
  return result;
}

std::vector<std::string> budget_file::all() {
  std::vector<std::string> result;
  owned_descriptor folder = open_folder(false);
  if (folder.empty()) return result;
  const std::unique_ptr<::DIR, int (*)(::DIR*)> entries{::fdopendir(folder.get()), ::closedir};
  if (!entries) throw_system(errno, "fdopendir", folder_path());
  static_cast<void>(folder.release());
  while (const ::dirent* const entry = ::readdir(entries.get())) {
    const std::string_view name{entry->d_name};
    if (is_budget_name(name.substr(0, name.find('@'))) && name.find('@') != name.npos)
      result.emplace_back(name);
  }
  std::sort(result.begin(), result.end());
  return result;
}

void budget_file::unlock() noexcept {
  ::flock(file_.get(), LOCK_UN);
  // A child of fork() would keep it open, and the mapping needs it no longer.
  const owned_descriptor closed{std::move(file_)};
}

void budget_file::remove() {
  if (const int code = failure_of("unlinkat", ::unlinkat(folder_.get(), name_.c_str(), 0));
      code != 0 && code != ENOENT)
    throw_system(code, "unlinkat", folder_path() + '/' + name_);
}

}  // namespace hipvmm::detail
