// SPDX-License-Identifier: MIT
#include "ipc/path_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "ipc/protocol_step.hpp"

namespace hipvmm::detail {
namespace {

constexpr const char* lock_suffix = ".lock";
constexpr std::size_t lock_suffix_length = 5;
constexpr const char* new_suffix = ".new";

bool is_same_file(int descriptor, const std::string& path) {
  struct stat open {};
  struct stat there {};
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

}  // namespace

path_lock::path_lock(std::string path, who_connects who)
    : path_{std::move(path)}, lock_path_{path_ + lock_suffix} {
  require_socket_path(path_, lock_suffix_length);
  lock_ = take();
  try {
    listen_at(who);
  } catch (...) {
    ::unlink(lock_path_.c_str());
    throw;
  }
}

path_lock::~path_lock() {
  if (lock_.empty()) return;
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_)
    ::unlink(path_.c_str());
  if (is_same_file(lock_.get(), lock_path_)) ::unlink(lock_path_.c_str());
}

void path_lock::abandon() noexcept {
  { const owned_descriptor closed{std::move(listener_)}; }
  { const owned_descriptor closed{std::move(lock_)}; }
}

owned_descriptor path_lock::take() const {
  // Again where the owner before removed the file between open and lock.
  for (int tries = 0; tries < 100; ++tries) {
    owned_descriptor lock{
        ::open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (const int code = failure_of("open", lock.get()); code != 0)
      throw_system(code, "open", lock_path_);
    const int code = failure_of("flock", ::flock(lock.get(), LOCK_EX | LOCK_NB));
    if (code == EWOULDBLOCK)
      throw ipc_error{ipc_failure::refused,
                      path_ +
                          " is published already: choose another path, or end the process "
                          "that holds " +
                          lock_path_};
    if (code != 0) throw_system(code, "flock", lock_path_);
    if (is_same_file(lock.get(), lock_path_)) return lock;
  }
  throw ipc_error{ipc_failure::refused, lock_path_ + " is made and removed again and again"};
}

void path_lock::listen_at(who_connects who) {
  // The path appears with a socket that listens: who waits for it can connect at once. Under both
  // names may be that of an owner that died; a living one would hold the lock.
  const std::string fresh = path_ + new_suffix;
  for (const std::string& name : {path_, fresh}) {
    struct stat there {};
    if (::lstat(name.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
      throw ipc_error{ipc_failure::refused, "there is something else than a socket at " + name +
                                                ": remove it, or choose another path"};
  }
  if (const int code = failure_of("unlink", ::unlink(fresh.c_str())); code != 0 && code != ENOENT)
    throw_system(code, "unlink", fresh);
  owned_descriptor socket = make_socket();
  bind_to(socket.get(), fresh, who);
  struct stat made {};
  try {
    if (const int code = failure_of("listen", ::listen(socket.get(), SOMAXCONN)); code != 0)
      throw_system(code, "listen", path_);
    if (::lstat(fresh.c_str(), &made) != 0) throw_system(errno, "lstat", fresh);
    const int planned = protocol_step("rename");
    if (planned != 0 || ::rename(fresh.c_str(), path_.c_str()) != 0)
      throw_system(planned != 0 ? planned : errno, "rename", path_);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
  device_ = made.st_dev;
  inode_ = made.st_ino;
  listener_ = std::move(socket);
}

}  // namespace hipvmm::detail
