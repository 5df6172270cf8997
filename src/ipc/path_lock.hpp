// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ipc/socket.hpp"

namespace hipvmm::detail {

/// A path at which this object alone publishes, and the listening socket there. The folder
/// `path.hipvmm`, for this user alone, has `lock`, a file locked (flock) as long as the object or
/// its process lives, and `socket`, a second link to the socket at `path`. The next owner knows a
/// dead owner's socket by that link, and replaces, removes or changes nothing else.
class path_lock {
 public:
  /// Listens at the path. Throws: std::invalid_argument for a bad path; ipc_error `refused` if a
  /// publication or anything else is there, `system`; out_of_memory.
  path_lock(std::string path, who_connects who);
  ~path_lock();  ///< removes the files that are still this object's own
  path_lock& operator=(path_lock&&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] int listener() const noexcept { return listener_.get(); }
  /// In a child of fork(): closes all descriptors and leaves the files, which are the parent's.
  void abandon() noexcept;

 private:
  void lock_folder();
  [[nodiscard]] bool open_lock();  ///< false if an owner that ends has removed folder or file
  void remove_left_socket();
  void listen_at(who_connects who);
  [[nodiscard]] bool has_path() const noexcept;
  void remove_lock() noexcept;

  std::string path_;
  std::string place_;
  std::string folder_path_;
  owned_descriptor folder_;
  owned_descriptor lock_;
  owned_descriptor listener_;
};

}  // namespace hipvmm::detail
