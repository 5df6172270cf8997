// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "ipc/budget/budget_table.hpp"
#include "ipc/budget/budgets_folder.hpp"
#include "ipc/socket.hpp"

namespace hipvmm::detail {

struct budget_key {
  std::string name;
  device_uuid device;
};

void require_budget_name(const std::string& name);

/// By its lock one process at a time joins, sets the limit or removes it; requests take none.
class budget_file {
 public:
  /// Opens and locks the file, for which it waits some seconds at most. Without a file, makes one
  /// with `limit`, or returns null if that is zero. The destructor removes a new file unless
  /// unlock() came before. Throws: ipc_error `refused` unless file and folder are for this user
  /// alone, and of this version, PID namespace and time namespace; `timeout`; `system`.
  [[nodiscard]] static std::unique_ptr<budget_file> open(const budget_key& key,
                                                         std::uint64_t limit);
  /// The same for an existing file in the folder, without the lock; null if there is none.
  [[nodiscard]] static std::unique_ptr<budget_file> look_at(const std::string& file);
  [[nodiscard]] static std::vector<std::string> all();
  ~budget_file();
  budget_file& operator=(budget_file&&) = delete;

  void unlock() noexcept;  ///< also closes the file, which stays mapped
  void remove();           ///< pre: locked
  [[nodiscard]] budget_layout& shared() const noexcept { return *shared_; }
  /// Whether the folder still has this file under its name.
  [[nodiscard]] bool is_there() const noexcept;

 private:
  budget_file(budgets_folder folder, std::string name, owned_descriptor file);
  void map();
  /// Returns false if another file has the name, or the folder has gone.
  [[nodiscard]] bool link();

  budgets_folder folder_;
  std::string name_;
  owned_descriptor file_;
  bool is_new_ = false;
  budget_layout* shared_ = nullptr;
  struct stat about_ {};
};

}  // namespace hipvmm::detail
