// SPDX-License-Identifier: MIT
#include "ipc/budget/budget_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>  // IWYU pragma: keep
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include <hipvmm/ipc/ipc_error.hpp>
#include "core/check.hpp"
#include "core/write_signals.hpp"
#include "ipc/fault_point.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto lock_patience = 5s;

bool is_allowed(char letter) noexcept {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
}

bool is_budget_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= max_budget_name && name.front() != '.' &&
         std::ranges::all_of(name, is_allowed);
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

owned_descriptor open_file(const budgets_folder& folder, const std::string& name) {
  owned_descriptor file{::openat(folder.descriptor.get(), name.c_str(),
                                 O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  const int code = failure_of("openat", file.get());
  if (code == ENOENT) return {};
  const std::string path = folder.path + '/' + name;
  if (code == ELOOP) refuse_budget(path + " is a symbolic link: remove it");
  if (code == EISDIR || code == EACCES || code == ENXIO)
    refuse_budget(path + " is no file that this user may read and write: remove it");
  if (code != 0) throw_system(code, "openat", path);
  struct stat about {};
  if (const int failed = failure_of("fstat", ::fstat(file.get(), &about)); failed != 0)
    throw_system(failed, "fstat", path);
  require_own(about, path);
  if (!S_ISREG(about.st_mode) || about.st_size != static_cast<::off_t>(sizeof(budget_layout)))
    refuse_budget(path +
                  " is no budget of this version of hipvmm: remove it when no process uses it");
  return file;
}

/// A file without a name, so that it appears whole and locked. Empty if the folder has gone.
owned_descriptor make_file(const budgets_folder& folder, const std::string& path,
                           const budget_key& key, std::uint64_t limit) {
  owned_descriptor file{
      ::openat(folder.descriptor.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  const int created = failure_of("create", file.get());
  if (created == ENOENT) return {};
  if (created != 0) throw_system(created, "openat(O_TMPFILE)", path);
  const without_write_signals failing;
  // Allocates all pages now: a store to a page without memory would end the process.
  int allocated = EINTR;
  while (allocated == EINTR) {
    const int planned = fault_point("posix_fallocate");
    allocated = planned != 0 ? planned : ::posix_fallocate(file.get(), 0, sizeof(budget_layout));
  }
  if (allocated != 0) throw_system(allocated, "posix_fallocate", path);
  budget_header header{};
  header.magic = budget_magic;
  header.version = budget_version;
  header.records = max_budget_processes;
  const process_namespaces own = own_namespaces();
  header.pid_namespace = own.pid;
  header.time_namespace = own.time;
  header.device = key.device.bytes;
  std::ranges::copy(key.name, header.name.begin());
  header.limit = limit;
  const ::ssize_t written = ::pwrite(file.get(), &header, sizeof(header), 0);
  const int code = failure_of("pwrite", written == sizeof(header) ? 0 : -1);
  if (code != 0) throw_system(code, "pwrite", path);
  return file;
}

void lock_file(const owned_descriptor& file, const std::string& path) {
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

bool has_name(const budgets_folder& folder, const std::string& name, const struct stat& file) {
  struct stat there {};
  return ::fstatat(folder.descriptor.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         file.st_dev == there.st_dev && file.st_ino == there.st_ino;
}

bool is_still_there(const budgets_folder& folder, const std::string& name,
                    const owned_descriptor& file) {
  struct stat open {};
  return ::fstat(file.get(), &open) == 0 && has_name(folder, name, open);
}

}  // namespace

void require_budget_name(const std::string& name) {
  if (!is_budget_name(name))
    throw std::invalid_argument{
        "'" + name + "' is no name of a budget: use 1 to " + std::to_string(max_budget_name) +
        " letters, digits, '.', '_' and '-', of which '.' is not the first"};
}

budget_file::budget_file(budgets_folder folder, std::string name, owned_descriptor file)
    : folder_{std::move(folder)}, name_{std::move(name)}, file_{std::move(file)} {}

budget_file::~budget_file() {
  // A new file has been locked since it was made, so no other process takes part.
  if (is_new_) report_exceptions([this] { remove(); });
  unlock();
  if (shared_ != nullptr) ::munmap(static_cast<void*>(shared_), sizeof(budget_layout));
}

void budget_file::map() {
  const std::string path = folder_.path + '/' + name_;
  const int planned = fault_point("mmap");
  void* const mapped = planned != 0 ? MAP_FAILED
                                    : ::mmap(nullptr, sizeof(budget_layout), PROT_READ | PROT_WRITE,
                                             MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) throw_system(planned != 0 ? planned : errno, "mmap", path);
  shared_ = static_cast<budget_layout*>(mapped);
  if (::fstat(file_.get(), &about_) != 0) throw_system(errno, "fstat", path);
  const budget_header& header = shared_->header;
  if (header.magic != budget_magic || header.version != budget_version ||
      header.records != max_budget_processes)
    refuse_budget(path +
                  " is no budget of this version of hipvmm: remove it when no process uses it");
  const budget_key key{{header.name.begin(), std::ranges::find(header.name, 0)}, {header.device}};
  if (!is_budget_name(key.name) || file_name(key) != name_)
    refuse_budget(path + " says that it is budget '" + (is_budget_name(key.name) ? key.name : "?") +
                  "', which is not its name: remove it when no process uses it");
  const process_namespaces own = own_namespaces();
  const char* const other = header.pid_namespace != own.pid     ? "PID"
                            : header.time_namespace != own.time ? "time"
                                                                : nullptr;
  if (other != nullptr)
    refuse_budget(path + " was made in another " + other +
                  " namespace, such as another container's, so that no "
                  "process can tell which of the others have died: share the namespace, give each "
                  "its own folder by HIPVMM_BUDGETS, or remove the file when no process uses it");
}

bool budget_file::link() {
  const std::string open = "/proc/self/fd/" + std::to_string(file_.get());
  const int result =
      ::linkat(AT_FDCWD, open.c_str(), folder_.descriptor.get(), name_.c_str(), AT_SYMLINK_FOLLOW);
  is_new_ = result == 0;
  const int code = failure_of("linkat", result);
  if (code != 0 && code != EEXIST && code != ENOENT)
    throw_system(code, "linkat", folder_.path + '/' + name_);
  return is_new_;
}

std::unique_ptr<budget_file> budget_file::open(const budget_key& key, std::uint64_t limit) {
  require_budget_name(key.name);
  const std::string name = file_name(key);
  std::string path;
  // Again if another process removed the file between open and lock, or made one meanwhile.
  for (int tries = 0; tries < 100; ++tries) {
    budgets_folder folder = open_budgets_folder(limit != 0);
    path = folder.path + '/' + name;
    if (folder.descriptor.empty()) {
      if (limit == 0) return nullptr;
      continue;
    }
    owned_descriptor file = open_file(folder, name);
    const bool makes = file.empty();
    if (makes && limit == 0) return nullptr;
    if (makes) file = make_file(folder, path, key, limit);
    if (file.empty()) continue;
    lock_file(file, path);
    if (!makes && !is_still_there(folder, name, file)) continue;
    std::unique_ptr<budget_file> result{new budget_file{std::move(folder), name, std::move(file)}};
    result->map();
    if (!makes || result->link()) return result;
  }
  refuse_budget(path + " is made and removed again and again");
}

std::unique_ptr<budget_file> budget_file::look_at(const std::string& file) {
  budgets_folder folder = open_budgets_folder(false);
  if (folder.descriptor.empty()) return nullptr;
  owned_descriptor opened = open_file(folder, file);
  if (opened.empty()) return nullptr;
  std::unique_ptr<budget_file> result{new budget_file{std::move(folder), file, std::move(opened)}};
  result->map();
  return result;
}

std::vector<std::string> budget_file::all() {
  std::vector<std::string> result;
  const budgets_folder folder = open_budgets_folder(false);
  if (folder.descriptor.empty()) return result;
  for (std::string& each : entries_of(folder.descriptor, folder.path))
    if (const std::size_t at = each.find('@');
        at != each.npos && is_budget_name(std::string_view{each}.substr(0, at)))
      result.push_back(std::move(each));
  std::ranges::sort(result);
  return result;
}

bool budget_file::is_there() const noexcept { return has_name(folder_, name_, about_); }

void budget_file::unlock() noexcept {
  is_new_ = false;
  ::flock(file_.get(), LOCK_UN);
  // A child of fork() would keep it open, and the mapping needs it no longer.
  const owned_descriptor closed{std::move(file_)};
}

void budget_file::remove() {
  if (const int code =
          failure_of("unlinkat", ::unlinkat(folder_.descriptor.get(), name_.c_str(), 0));
      code != 0 && code != ENOENT)
    throw_system(code, "unlinkat", folder_.path + '/' + name_);
}

}  // namespace hipvmm::detail
