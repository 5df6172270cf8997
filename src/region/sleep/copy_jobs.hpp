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

/// Runs copies that block, as those of pageable memory and files do, in order in a thread. One
/// thread at a time owns the object.
class copy_jobs {
 public:
  ~copy_jobs() { cancel(); }
  copy_jobs& operator=(copy_jobs&&) = delete;

  /// Runs the job in this call if the system refuses a thread. No job runs after one that failed.
  /// Throws: std::bad_alloc; as the job, if it runs in this call.
  void add(std::function<void()> job);
  [[nodiscard]] std::size_t added() const noexcept { return added_; }
  /// Waits for the first `count` jobs. Throws: as the first that failed.
  void wait_for(std::size_t count);
  /// Waits for the job that runs, and drops the rest.
  void cancel() noexcept;

 private:
  void run(const std::stop_token& stop) noexcept;

  std::size_t added_ = 0;
  std::mutex mutex_;  // of the members below
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t ended_ = 0;
  std::exception_ptr failure_;
  background_thread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

}  // namespace hipvmm::detail
