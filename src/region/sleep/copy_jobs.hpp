// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>

#include "core/background_thread.hpp"

namespace hipvmm::detail {

/// Copies that block their caller, as those of pageable memory and of files do. A thread makes
/// them, in order, while the owner maps and unmaps chunks. One thread at a time owns it.
class copy_jobs {
 public:
  ~copy_jobs() { cancel(); }
  copy_jobs& operator=(copy_jobs&&) = delete;

  /// If the system refuses a thread the job runs in the call; behind a job that failed none runs.
  /// Throws: std::bad_alloc, and as the job in the call.
  void add(std::function<void()> job);
  [[nodiscard]] std::size_t added() const noexcept { return added_; }
  /// Waits for the first `count` jobs. Throws: as one of them.
  void wait_for(std::size_t count);
  /// Waits for the one that runs. No other begins.
  void cancel() noexcept;

 private:
  void run(const std::stop_token& stop) noexcept;

  std::size_t added_ = 0;  // the owner's; the rest is under the mutex
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t ended_ = 0;
  std::exception_ptr failure_;
  background_thread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

}  // namespace hipvmm::detail
