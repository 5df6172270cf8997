// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/ipc/budget/budget_options.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

namespace detail {
class budget_member;
}  // namespace detail

/// A limit on the device memory that all processes of one user hold together on one device,
/// comparable with memory.max of a cgroup.
/// - It counts each chunk that this process creates on the device, for regions, vectors, pools,
///   arenas and chunk caches; not imported or retained chunks, host memory, or memory of hipMalloc.
/// - A request beyond the limit first releases memory that this process keeps, then asks other
///   holders to trim, then throws out_of_memory with exhausted::budget. No process is killed.
/// - A process that has died holds nothing. A child of fork() takes no part.
/// - An object that was moved from has bytes() of 0; other functions throw std::invalid_argument.
class memory_budget {
 public:
  /// Joins the budget `name` of `device`. `bytes` is the limit, unless set_limit(), hipvmm-ctl or a
  /// process that holds the budget now has set one.
  /// - Chunks that the process created before count at once, even beyond the limit.
  /// - Processes share a budget if they have the same /dev/shm, or the same folder HIPVMM_BUDGETS.
  /// Throws: std::invalid_argument unless `name` is 1 to 64 letters, digits, '.', '_' and '-', of
  /// which '.' is not the first; if `bytes` is 0, or this process has a budget of the device;
  /// unsupported if the device is used through hipMalloc or has no UUID; ipc_error; out_of_memory.
  memory_budget(device_ref device, const std::string& name, std::size_t bytes,
                budget_options options = {});
  ~memory_budget();  ///< leaves the budget; memory of this process no longer counts
  memory_budget(memory_budget&&) noexcept;
  memory_budget& operator=(memory_budget&&) noexcept;

  /// Sets the limit for all processes, now and later. Holders beyond it are asked to trim; they
  /// keep the rest and get no more. Throws: ipc_error, `refused` if the budget's file was removed.
  void set_limit(std::size_t bytes);
  /// Makes room as a request for `bytes` beyond the limit does; within budget_options::trim it asks
  /// no other holder. Returns whether `bytes` fit now; another process may take the room first.
  bool make_room(std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const noexcept;  ///< held by this process
  [[nodiscard]] budget_report report() const;

  /// The budgets of this user on all devices. Needs no device. Skips files of another version and
  /// files that are no budgets.
  /// Throws: ipc_error if the folder of the budgets is not only this user's.
  [[nodiscard]] static std::vector<budget_report> all();
  /// Sets the limit of a budget that this process has not joined; creates the budget if necessary.
  /// Throws: std::invalid_argument for an invalid name; ipc_error.
  static void set_limit(const std::string& name, const device_uuid& device, std::size_t bytes);
  /// Removes a budget. Returns false if there is none.
  /// Throws: ipc_error `refused` if processes take part; the message names them.
  static bool remove(const std::string& name, const device_uuid& device);

 private:
  [[nodiscard]] detail::budget_member& live() const;

  std::shared_ptr<detail::budget_member> share_;
};

}  // namespace hipvmm
