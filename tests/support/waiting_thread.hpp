// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "support/happens.hpp"

namespace hipvmm::test {

/// The wait in which thread `id` of this process is blocked: differs from one wait to the next, and
/// is empty while the thread runs.
inline std::string wait_of(::pid_t id) {
  std::ifstream status{"/proc/self/task/" + std::to_string(id) + "/status"};
  bool is_asleep = false;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("State:\tS", 0) == 0) is_asleep = true;
    if (is_asleep && line.rfind("voluntary_ctxt_switches:", 0) == 0) return line;
  }
  return {};
}

/// Waits until thread `id` stays in one wait, or until `is_over()`, for `most` at most. Returns
/// whether it waits.
template <typename Predicate>
bool comes_to_wait(::pid_t id, Predicate is_over,
                   std::chrono::milliseconds most = std::chrono::seconds{20}) {
  std::string last;
  bool waits = false;
  return comes_true(
             [&] {
               const std::string now = wait_of(id);
               waits = !now.empty() && now == std::exchange(last, now);
               return waits || is_over();
             },
             most) &&
         waits;
}

/// A thread of which a test can see that it is blocked.
class watched_thread {
 public:
  template <typename Task>
  explicit watched_thread(Task task)
      : thread_{[this, task = std::move(task)]() mutable {
          id_ = ::gettid();
          task();
          is_over_ = true;
        }} {}

  /// Waits until the thread is blocked or has ended. Returns whether it is blocked.
  bool comes_to_wait() {
    return comes_true([&] { return id_ != 0; }) &&
           test::comes_to_wait(id_, [&] { return is_over(); });
  }
  [[nodiscard]] bool is_over() const { return is_over_; }
  void join() { thread_.join(); }

 private:
  std::atomic<::pid_t> id_{0};
  std::atomic<bool> is_over_{false};
  std::jthread thread_;
};

/// Calls `open` in a thread of its own once the thread that made this is blocked, and at the
/// latest at the end. Waits of CUDA's driver run in a loop: if `spins_for` is given, a call that
/// has lasted as long counts as blocked.
class opened_by_wait {
 public:
  explicit opened_by_wait(std::function<void()> open,
                          std::optional<std::chrono::milliseconds> spins_for = {})
      : opener_{[this, open = std::move(open), spins_for, waiter = ::gettid()] {
          has_opened_ = comes_to_wait(
                            waiter, [&] { return is_over_.load(); },
                            spins_for.value_or(std::chrono::seconds{20})) ||
                        (spins_for && !is_over_);
          open();
        }} {}
  ~opened_by_wait() { is_over_ = true; }
  opened_by_wait& operator=(opened_by_wait&&) = delete;

  /// Whether the call that has just returned was blocked.
  [[nodiscard]] bool was_waited_for() {
    is_over_ = true;
    return has_opened_;
  }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<bool> has_opened_{false};
  std::jthread opener_;
};

}  // namespace hipvmm::test
