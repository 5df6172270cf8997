// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <string>

#include "ipc/socket.hpp"

namespace hipvmm::detail {

/// A path in the file system that this object alone publishes at, and the listening socket there.
/// `path.lock` is locked (flock) as long as it lives, which ends with the process that made it, so
/// that what a dead owner left is taken over.
class path_lock {
 public:
  /// Takes the path and listens. Throws: std::invalid_argument for a bad path; ipc_error `refused`
  /// where it is taken, or something else than a socket is there; ipc_error `system`;
  /// out_of_memory.
  path_lock(std::string path, who_connects who);
  /// Removes both files where they are still this object's own.
  ~path_lock();
  path_lock(const path_lock&) = delete;
  path_lock& operator=(const path_lock&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] int listener() const noexcept { return listener_.get(); }
  /// Closes both descriptors and leaves the files, which are of the process before fork().
  void abandon() noexcept;

 private:
  [[nodiscard]] owned_descriptor take() const;
  void listen_at(who_connects who);

  std::string path_;
  std::string lock_path_;
  owned_descriptor lock_;
  owned_descriptor listener_;
  ::dev_t device_ = 0;
  ::ino_t inode_ = 0;
};

}  // namespace hipvmm::detail
