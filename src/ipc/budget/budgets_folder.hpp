// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "ipc/socket.hpp"

namespace hipvmm::detail {

struct budgets_folder {
  owned_descriptor descriptor;  ///< empty if the folder does not exist, or not any more
  std::string path;
};

/// Opens the folder that HIPVMM_BUDGETS names, else this user's in /dev/shm; creates it if `makes`.
/// If another user has taken its name, all processes of this user find another one.
/// Throws: ipc_error `refused` for a folder that other users may use; `system`.
[[nodiscard]] budgets_folder open_budgets_folder(bool makes);

/// Throws: ipc_error `system`.
[[nodiscard]] std::vector<std::string> entries_of(const owned_descriptor& folder,
                                                  const std::string& path);

[[noreturn]] void refuse_budget(const std::string& why);

/// Throws: ipc_error `refused` unless the object of `about` is for this user alone.
void require_own(const struct ::stat& about, const std::string& path);

}  // namespace hipvmm::detail
