// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <boost/intrusive/list_hook.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace hipvmm::detail {

/// Work that its owner submits repeatedly to the process's one background worker, which runs the
/// task that is due first. One thread at a time uses a task, but for the thread-safe functions.
/// - Only the body may use the data that it writes while pending(), only the owner otherwise.
/// - Submitting and cancelling allocate nothing; the body runs outside locks.
class background_task : public boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::normal_link>> {
 public:
  /// `body` runs in the worker and follows the rules of background_thread::body.
  explicit background_task(std::function<void()> body) : body_{std::move(body)} {}
  /// Pre: the data of the body still exists.
  ~background_task() { cancel_or_wait(); }
  background_task& operator=(background_task&&) = delete;

  /// Queues the body to run once. Pre: not pending(). Returns false, and the body will not run,
  /// when the process is exiting or a child of fork(), or the system refuses a thread.
  bool submit() noexcept;
  /// Makes the body run once more: a queued body keeps its time, a running one runs again. This and
  /// the next two are thread-safe and return false as submit() does.
  bool request() noexcept { return request_in(std::chrono::microseconds{0}); }
  /// Like request(), but a body that is not queued begins after `delay`.
  bool request_in(std::chrono::microseconds delay) noexcept;
  /// Like request(), but a queued body begins now.
  bool request_now() noexcept { return submit(); }
  /// For the body: runs it again after `delay`, unless the task is cancelled before.
  void run_again_in(std::chrono::microseconds delay) noexcept;
  /// Cancels the task if it has not begun, else waits for its end, except in a child of fork().
  void cancel_or_wait() noexcept;
  /// For the body: whether the process is exiting and waits for it. Thread-safe.
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
  bool is_cancelled_ = false;  // the owner waits in cancel_or_wait()
};

/// Calls `body(of)`, then the program's callbacks that became due meanwhile. The task is idle by
/// then, because its owner may wait for that while it holds a lock that a callback needs.
using task_runner = void (*)(void (*body)(void*), void* of);
/// The worker runs every body through `with`; a static initializer sets it.
void set_task_runner(task_runner with) noexcept;

/// For tests: waits until the worker has ended, or done all tasks that were submitted until then.
void wait_for_background_tasks();

}  // namespace hipvmm::detail
