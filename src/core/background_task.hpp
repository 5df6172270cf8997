// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <boost/intrusive/list_hook.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace hipvmm::detail {

/// Work that its owner hands, again and again, to the one background worker of the process, which
/// takes tasks in the order they were submitted. One thread at a time uses a task, but for
/// request() and request_now(). What the body writes belongs to the worker while pending(), and to
/// the owner else. Submitting and settling allocate nothing; the body runs outside locks.
class background_task : public boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::normal_link>> {
 public:
  /// `body` runs in the worker, for which background_thread's rules hold: it must not throw.
  explicit background_task(std::function<void()> body) : body_{std::move(body)} {}
  /// Settles it. What the body uses must still be there.
  ~background_task() { settle(); }
  background_task(const background_task&) = delete;
  background_task& operator=(const background_task&) = delete;

  /// Queues the body to run once. Returns false, and the body will not run, when the process is
  /// exiting or a child of fork(), or the system refuses a thread. Pre: not pending().
  bool submit() noexcept;
  /// Sees to it that the body runs once more from now on, whether it is pending or not; false as
  /// submit(). Thread-safe.
  bool request() noexcept;
  /// As request(), and where nothing else lets the body run earlier, it begins after `delay`.
  /// Thread-safe.
  bool request_in(std::chrono::microseconds delay) noexcept;
  /// As request(), and the body runs now where run_again_in() has put that off. Thread-safe.
  bool request_now() noexcept;
  /// For the body: it runs again when `delay` has passed, unless the task is settled before.
  void run_again_in(std::chrono::microseconds delay) noexcept;
  /// Takes the task back if it has not begun, and waits for its end if it has. In a child of
  /// fork(), which has no worker, it waits for nothing.
  void settle() noexcept;
  /// Whether it was submitted and has neither ended nor been taken back.
  [[nodiscard]] bool pending() const noexcept {
    return stage_.load(std::memory_order_acquire) != stage::idle;
  }

 private:
  friend class background_worker;
  enum class stage { idle, queued, running };

  std::function<void()> body_;
  std::atomic<stage> stage_{stage::idle};  // changed under the worker's lock, as what follows
  std::chrono::steady_clock::time_point due_;
  bool again_ = false;     // runs again at `due_` when the body has ended
  bool settling_ = false;  // its owner waits for its end
};

/// Waits until the worker has done all that was submitted before and meanwhile: tests look then at
/// what has come of it.
void wait_for_background_tasks();

}  // namespace hipvmm::detail
