// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "ipc/budget/budget_table.hpp"
#include "ipc/socket.hpp"

namespace hipvmm::detail {

/// Which budget: its name, and the device.
struct budget_key {
  std::string name;
  device_uuid device;
};

/// Throws: std::invalid_argument for a name that a budget cannot have.
void require_budget_name(const std::string& name);

/// A mapped file of a budget, and a lock by which one process at a time joins, sets the limit or
/// removes it. What a request needs takes no lock.
class budget_file {
 public:
  /// Opens it and takes the lock, for which it waits some seconds at most. Where there is none,
  /// makes one with `limit`, or returns null where that is zero.
  /// Throws: ipc_error `refused` for a file or folder that others may write, or that is none of
  /// this version or this PID namespace; `timeout`; `system`.
  [[nodiscard]] static std::unique_ptr<budget_file> open(const budget_key& key,
                                                         std::uint64_t limit);
  /// The same for a file that is there, by its name in the folder, without the lock; null where
  /// it is gone.
  [[nodiscard]] static std::unique_ptr<budget_file> look_at(const std::string& file);
  /// The names of all files in the folder; none where there is no folder.
  [[nodiscard]] static std::vector<std::string> all();
  ~budget_file();
  budget_file(const budget_file&) = delete;
  budget_file& operator=(const budget_file&) = delete;

  /// Releases the lock and closes the file, which stays mapped.
  void unlock() noexcept;
  /// Removes the file. Pre: it is locked.
  void remove();
  [[nodiscard]] budget_layout& shared() const noexcept { return *shared_; }

 private:
  budget_file(owned_descriptor folder, std::string name, owned_descriptor file);
  void map();

  owned_descriptor folder_;
  std::string name_;
  owned_descriptor file_;
  budget_layout* shared_ = nullptr;
};

}  // namespace hipvmm::detail
