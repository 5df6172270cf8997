// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <boost/intrusive/list_hook.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace hipvmm::detail {

/// Work that its owner submits repeatedly to the one background worker of the process, which runs
/// the task that is due first.
/// - One thread at a time uses a task, except for the functions that are marked thread-safe.
/// - The data that the body writes belongs to the worker while pending(), else to the owner.
/// - Submitting and cancelling allocate nothing; the body runs outside locks.
class background_task : public boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::normal_link>> {
 public:
  /// `body` runs in the worker and follows background_thread's rules: it must not throw.
  explicit background_task(std::function<void()> body) : body_{std::move(body)} {}
  /// Pre: the data of the body still exists.
  ~background_task() { cancel_or_wait(); }
  background_task& operator=(background_task&&) = delete;

  /// Queues the body to run once. Pre: not pending(). Returns false, and the body will not run,
  /// when the process is exiting or a child of fork(), or the system refuses a thread.
  bool submit() noexcept;
  /// Ensures that the body runs once more from now on, whether it is pending or not. Thread-safe,
  /// as the next two. They return false as submit().
  bool request() noexcept { return request_in(std::chrono::microseconds{0}); }
  /// Like request(), but the body begins after `delay` unless something else lets it run earlier.
  bool request_in(std::chrono::microseconds delay) noexcept;
  /// Like request(); the body runs now if run_again_in() has deferred it.
  bool request_now() noexcept { return submit(); }
  /// For the body: runs it again after `delay`, unless the task is cancelled before.
  void run_again_in(std::chrono::microseconds delay) noexcept;
  /// Cancels the task if it has not begun, else waits for its end, except in a child of fork().
  void cancel_or_wait() noexcept;
  /// For the body: whether the process waits for it to exit. Thread-safe.
  [[nodiscard]] static bool is_awaited_by_exit() noexcept;
  [[nodiscard]] bool pending() const noexcept {
    return stage_.load(std::memory_order_acquire) != stage::idle;
  }

 private:
  friend class background_worker;
  enum class stage { idle, queued, running };

  std::function<void()> body_;
  std::atomic<stage> stage_{stage::idle};  // changed under the worker's lock, as all below
  std::chrono::steady_clock::time_point due_;
  bool again_ = false;         // runs again at `due_` when the body has ended
  bool is_cancelled_ = false;  // its owner waits for its end
};

/// Calls `body(of)`, and afterwards functions of the program that the body was to call. By then the
/// task is idle, because its owner may wait for that with a lock that they need.
using task_runner = void (*)(void (*body)(void*), void* of);
/// The worker runs all bodies so. The program's start sets it.
void set_task_runner(task_runner with) noexcept;

/// For tests: waits until the worker has ended, or done all tasks that were submitted until then.
void wait_for_background_tasks();

}  // namespace hipvmm::detail
