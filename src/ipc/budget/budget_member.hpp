// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include <hipvmm/ipc/budget/budget_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/background_thread.hpp"
#include "core/owner_process.hpp"
#include "ipc/budget/budget_file.hpp"
#include "ipc/budget/budget_table.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::detail {

/// Has the limit on the chunks of a device, and the thread that releases memory for others.
class budget_member final : public chunk_limit {
 public:
  /// Throws: as the constructor of memory_budget.
  [[nodiscard]] static std::shared_ptr<budget_member> join(device_ref device, const budget_key& key,
                                                           std::size_t limit,
                                                           budget_options options);
  ~budget_member() override = default;

  void end() noexcept;  ///< does nothing the second time, and in a child of fork()

  void begin(std::size_t bytes) noexcept override;
  bool charge(std::size_t bytes) noexcept override;
  void uncharge(std::size_t bytes) noexcept override;
  [[nodiscard]] std::size_t bytes_left() const noexcept override;
  [[nodiscard]] std::size_t most() const noexcept override;
  [[nodiscard]] std::string explain() const override;
  [[nodiscard]] shortage refusal(device_ref device, std::size_t bytes) const override;
  bool make_room(std::size_t bytes) noexcept override;

  [[nodiscard]] const budget_key& key() const noexcept { return key_; }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return table_.own_held(); }
  [[nodiscard]] budget_report report() const;
  /// Names the reason and the remedy if another process would not find this budget; else empty.
  [[nodiscard]] std::string why_split() const;

 private:
  using clock = std::chrono::steady_clock;
  budget_member(device_ref device, budget_key key, budget_options options,
                std::unique_ptr<budget_file> file);

  void serve(const std::stop_token& stop) noexcept;
  /// Frees the records of dead processes, once in death_interval. Returns whether there were some.
  bool look_for_dead(clock::time_point& next) noexcept;
  /// Waits for its turn, releases memory and answers. Returns the newest request that it saw.
  std::uint32_t attend(const std::stop_token& stop) noexcept;
  /// Returns false if another request came during the wait for retired memory.
  [[nodiscard]] bool release_for(std::uint32_t number, const std::stop_token& stop) noexcept;
  void release_kept(std::size_t bytes) noexcept;

  const owner_process process_;
  const device_ref device_;
  const budget_key key_;
  const budget_options options_;
  const std::unique_ptr<budget_file> file_;
  budget_table table_;

  std::mutex mutex_;
  std::condition_variable no_waiter_;
  std::size_t waiters_ = 0;        // threads in make_room()
  std::uint64_t waiting_for_ = 0;  // the sum of their needs
  clock::time_point waits_until_;  // their latest deadline so far
  bool has_ended_ = false;
  background_thread thread_{[this](const std::stop_token& stop) { serve(stop); }};
};

[[nodiscard]] budget_report report_of(const budget_table& table);

}  // namespace hipvmm::detail
