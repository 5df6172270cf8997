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

/// Opens the folder that HIPVMM_BUDGETS names, or else the one of this user in /dev/shm. Another
/// user may take its name, which is no secret; then this user has another one, which all its
/// processes find. Creates it if `makes`.
/// Throws: ipc_error `refused` for a folder that other users may use; `system`.
[[nodiscard]] budgets_folder open_budgets_folder(bool makes);

/// The names in a folder, which a message calls `path`. Throws: ipc_error `system`.
[[nodiscard]] std::vector<std::string> entries_of(const owned_descriptor& folder,
                                                  const std::string& path);

[[noreturn]] void refuse_budget(const std::string& why);

/// Throws: ipc_error `refused` if other users could write to the object of `about`.
void require_own(const struct ::stat& about, const std::string& path);

}  // namespace hipvmm::detail
