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
class budget_share;
}  // namespace detail

/// A cap on the device memory that processes of one user hold together on one device, as a cgroup's
/// memory.max is one on memory of the host.
/// - While it lives, all chunks that this process creates on the device count: of regions, growable
///   vectors, pools, arenas, chunk caches. Not counted are imported and retained chunks, memory of
///   the host, hipMalloc.
/// - A request that exceeds it releases what this process keeps, then asks other holders to trim,
///   and then throws out_of_memory with exhausted::limit. Nobody is killed.
/// - Processes that die, by whatever signal, hold nothing. A child of fork() takes no part.
/// - One that was moved from is empty: bytes() is 0, and what else asks for its budget throws
///   std::invalid_argument.
class memory_budget {
 public:
  /// Joins the budget `name` of `device`, with `bytes` as its limit. A limit that set_limit() or
  /// hipvmm-ctl has set, or that a process has which holds the budget now, stays as it is.
  /// - Chunks that the process has created already count at once, whether or not they fit.
  /// - Processes meet where they have the same /dev/shm, or the same folder HIPVMM_BUDGETS.
  /// Throws: std::invalid_argument for a name of more than 64 characters or of others than letters,
  /// digits, '.', '_' and '-', for no bytes, or where this process has a budget of the device;
  /// unsupported where the device is used by hipMalloc, or has no UUID; ipc_error; out_of_memory.
  memory_budget(device_ref device, const std::string& name, std::size_t bytes,
                budget_options options = {});
  /// Leaves it: what the process still holds no longer counts.
  ~memory_budget();
  memory_budget(memory_budget&&) noexcept;
  /// Leaves the budget that it had.
  memory_budget& operator=(memory_budget&&) noexcept;

  /// Sets the limit for all processes, now and later. Those that hold more together are asked to
  /// trim; what they do not release they keep, and get no more.
  void set_limit(std::size_t bytes);
  /// Does what a request for `bytes` does that does not fit, without making one: releases what this
  /// process keeps, then asks other holders to trim. Returns whether so many fit now; who comes
  /// first gets them. False at once in a budget_options::trim.
  bool make_room(std::size_t bytes);
  /// Bytes that this process holds of it.
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] budget_report report() const;

  /// The budgets of this user on all devices. Needs no device. Files that are none, or of another
  /// version, are left out.
  /// Throws: ipc_error where the folder of the budgets is not only this user's.
  [[nodiscard]] static std::vector<budget_report> all();
  /// Sets the limit of a budget in which this process takes no part, and makes the budget where
  /// there is none. Throws: std::invalid_argument for such a name; ipc_error.
  static void set_limit(const std::string& name, const device_uuid& device, std::size_t bytes);
  /// Removes a budget. Returns false where there is none.
  /// Throws: ipc_error `refused` where processes take part, which it names.
  static bool remove(const std::string& name, const device_uuid& device);

 private:
  [[nodiscard]] detail::budget_share& live() const;

  std::shared_ptr<detail::budget_share> share_;
};

}  // namespace hipvmm
