// SPDX-License-Identifier: MIT
#include "ipc/path_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include <hipvmm/ipc/ipc_error.hpp>
#include "ipc/fault_point.hpp"

namespace hipvmm::detail {
namespace {

constexpr const char* folder_suffix = ".hipvmm";
constexpr const char* lock_name = "lock";
constexpr const char* socket_name = "socket";

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool is_at(int descriptor, int folder, const char* name) {
  struct stat open {};
  struct stat there {};
  return ::fstat(descriptor, &open) == 0 &&
         ::fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && is_same(open, there);
}

[[noreturn]] void refuse(const std::string& what) { throw ipc_error{ipc_failure::refused, what}; }

[[noreturn]] void refuse_foreign(const std::string& path) {
  refuse("there is something at " + path +
         " that no publication of this user left: remove it, or choose another path");
}

/// Absolute, because the process may be in another folder at the end.
std::string place_of(const std::string& path) {
  require_socket_path(path, 0);
  return std::filesystem::absolute(path).string();
}

}  // namespace

path_lock::path_lock(std::string path, who_connects who)
    : path_{std::move(path)}, place_{place_of(path_)}, folder_path_{place_ + folder_suffix} {
  lock_folder();
  try {
    remove_left_socket();
    listen_at(who);
  } catch (...) {
    remove_lock();
    throw;
  }
}

path_lock::~path_lock() {
  if (lock_.empty()) return;
  // close_foreign() may close the socket later.
  ::shutdown(listener_.get(), SHUT_RDWR);
  if (has_path()) ::unlink(place_.c_str());
  ::unlinkat(folder_.get(), socket_name, 0);
  remove_lock();
}

void path_lock::abandon() noexcept {
  { const owned_descriptor closed{std::move(listener_)}; }
  { const owned_descriptor closed{std::move(lock_)}; }
  { const owned_descriptor closed{std::move(folder_)}; }
}

void path_lock::remove_lock() noexcept {
  if (is_at(lock_.get(), folder_.get(), lock_name)) ::unlinkat(folder_.get(), lock_name, 0);
  if (is_at(folder_.get(), AT_FDCWD, folder_path_.c_str())) ::rmdir(folder_path_.c_str());
  // Not by close_foreign(): the next owner needs the lock at once, and no peer has these two.
  ::close(lock_.release());
  ::close(folder_.release());
}

void path_lock::lock_folder() {
  // Again if the previous owner removed the folder between open and lock.
  for (int tries = 0; tries < 100; ++tries) {
    const int planned = fault_point("mkdir");
    const bool made = planned == 0 && ::mkdir(folder_path_.c_str(), 0700) == 0;
    if (!made && (planned != 0 || errno != EEXIST))
      throw_system(planned != 0 ? planned : errno, "mkdir", folder_path_);
    try {
      if (open_lock()) return;
    } catch (...) {
      // Fails if another owner uses the folder by now.
      if (made) ::rmdir(folder_path_.c_str());
      throw;
    }
  }
  refuse(folder_path_ + " is made and removed again and again");
}

bool path_lock::open_lock() {
  owned_descriptor folder{
      ::open(folder_path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (const int code = failure_of("open", folder.get()); code != 0) {
    if (code == ENOENT) return false;
    if (code == ENOTDIR || code == ELOOP) refuse_foreign(folder_path_);
    throw_system(code, "open", folder_path_);
  }
  struct stat about {};
  if (::fstat(folder.get(), &about) != 0) throw_system(errno, "fstat", folder_path_);
  if (about.st_uid != ::geteuid() || (about.st_mode & 0077) != 0)
    refuse(
        folder_path_ + " is a folder of user " + std::to_string(about.st_uid) +
        ", or others may use it too: remove it, or publish in a folder that is this user's alone");
  owned_descriptor lock{
      ::openat(folder.get(), lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (const int code = failure_of("openat", lock.get()); code != 0) {
    if (code == ENOENT) return false;
    throw_system(code, "openat", folder_path_ + "/lock");
  }
  const int code = failure_of("flock", ::flock(lock.get(), LOCK_EX | LOCK_NB));
  if (code == EWOULDBLOCK)
    refuse(path_ + " is published already: choose another path, or end the process that holds " +
           folder_path_ + "/lock");
  if (code != 0) {
    ::unlinkat(folder.get(), lock_name, 0);
    throw_system(code, "flock", folder_path_ + "/lock");
  }
  if (!is_at(lock.get(), folder.get(), lock_name) ||
      !is_at(folder.get(), AT_FDCWD, folder_path_.c_str()))
    return false;
  folder_ = std::move(folder);
  lock_ = std::move(lock);
  return true;
}

bool path_lock::has_path() const noexcept {
  struct stat own {};
  struct stat there {};
  return ::fstatat(folder_.get(), socket_name, &own, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::lstat(place_.c_str(), &there) == 0 && S_ISSOCK(own.st_mode) && is_same(own, there);
}

void path_lock::remove_left_socket() {
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0) {
    if (!has_path()) refuse_foreign(path_);
    // The owner has gone, but a process that inherited its listener may still answer.
    if (connect_to(path_).state != listener_state::absent)
      refuse("a process listens at " + path_ + ": choose another path, or end that process");
    if (const int code = failure_of("unlink", ::unlink(path_.c_str())); code != 0)
      throw_system(code, "unlink", path_);
  }
  if (::unlinkat(folder_.get(), socket_name, 0) != 0 && errno != ENOENT)
    throw_system(errno, "unlinkat", folder_path_ + "/socket");
}

void path_lock::listen_at(who_connects who) {
  owned_descriptor socket = make_socket();
  try {
    // By the descriptor, because a user who may write beside the folder could replace it.
    bind_to(socket.get(), "/proc/self/fd/" + std::to_string(folder_.get()) + '/' + socket_name,
            who);
    if (const int code = failure_of("listen", ::listen(socket.get(), SOMAXCONN)); code != 0)
      throw_system(code, "listen", path_);
    // The path appears only when the socket listens. A link replaces no other file.
    const int planned = fault_point("linkat");
    if (planned != 0 || ::linkat(folder_.get(), socket_name, AT_FDCWD, path_.c_str(), 0) != 0) {
      const int code = planned != 0 ? planned : errno;
      if (code == EEXIST) refuse_foreign(path_);
      throw_system(code, "link", path_);
    }
  } catch (...) {
    ::unlinkat(folder_.get(), socket_name, 0);
    throw;
  }
  listener_ = std::move(socket);
}

}  // namespace hipvmm::detail
