// SPDX-License-Identifier: MIT
#include "core/background_task.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "core/background_thread.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::detail {

namespace {

constinit std::atomic<task_runner> runner{[](void (*body)(void*), void* of) { body(of); }};

}  // namespace

class background_worker {
 public:
  using clock = std::chrono::steady_clock;

  static background_worker& instance() {
    static never_destroyed<background_worker> worker;
    return worker.get();
  }

  bool submit(background_task& task, clock::time_point due) noexcept {
    // A child of fork() has this handler, and not the thread that it would wait for.
    static const ::pid_t process = ::getpid();
    static const bool ends_at_exit = std::atexit([] {
                                       if (::getpid() == process) instance().end();
                                     }) == 0;
    if (!ends_at_exit || !thread_.start()) return false;
    {
      const std::lock_guard lock{mutex_};
      if (task.stage_ == background_task::stage::running) {
        ask_again(task, due);
      } else if (task.stage_ == background_task::stage::idle) {
        queue(task, due);
      } else {
        task.due_ = std::min(task.due_, due);
      }
    }
    changed_.notify_one();
    return true;
  }

  void run_again(background_task& task, clock::time_point due) noexcept {
    const std::lock_guard lock{mutex_};
    ask_again(task, due);
  }

  void cancel_or_wait(background_task& task) noexcept {
    // A child of fork() has neither the worker nor a thread that may have held the lock.
    if (thread_.is_of_parent()) {
      task.stage_.store(background_task::stage::idle, std::memory_order_release);
      return;
    }
    std::unique_lock lock{mutex_};
    if (task.stage_ == background_task::stage::queued) {
      queue_.erase(queue_.iterator_to(task));
      task.stage_.store(background_task::stage::idle, std::memory_order_release);
      ended_.notify_all();
    }
    task.is_cancelled_ = true;
    ended_.wait(lock, [&] { return is_stopped_ || task.stage_ == background_task::stage::idle; });
    task.is_cancelled_ = false;
  }

  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

  void wait_until_idle() {
    if (thread_.is_of_parent()) return;
    std::unique_lock lock{mutex_};
    ended_.wait(lock, [this] { return is_stopped_ || (queue_.empty() && !busy_); });
  }

 private:
  friend never_destroyed<background_worker>;

  background_worker() : thread_{[this](const std::stop_token& stop) { work(stop); }} {}

  void end() noexcept {
    has_ended_ = true;
    thread_.stop();
    const std::lock_guard lock{mutex_};
    is_stopped_ = true;
    ended_.notify_all();
  }

  static void ask_again(background_task& task, clock::time_point due) noexcept {
    if (!task.again_ || due < task.due_) task.due_ = due;
    task.again_ = true;
  }

  void queue(background_task& task, clock::time_point due) noexcept {
    task.due_ = due;
    queue_.push_back(task);
    task.stage_.store(background_task::stage::queued, std::memory_order_release);
  }

  auto next() noexcept { return std::ranges::min_element(queue_, {}, &background_task::due_); }

  void work(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (changed_.wait(lock, stop, [this] { return !queue_.empty(); }) &&
           !stop.stop_requested()) {
      background_task& task = *next();
      const clock::time_point due = task.due_;
      if (due > clock::now()) {
        changed_.wait_until(lock, stop, due, [&] { return queue_.empty() || next()->due_ < due; });
        continue;
      }
      queue_.erase(queue_.iterator_to(task));
      task.again_ = false;
      task.stage_.store(background_task::stage::running, std::memory_order_relaxed);
      busy_ = true;
      lock.unlock();
      auto body = [&] { run(task); };
      runner.load()([](void* of) { (*static_cast<decltype(body)*>(of))(); }, &body);
      lock.lock();
      busy_ = false;
      ended_.notify_all();
    }
  }

  void run(background_task& task) {
    task.body_();
    const std::lock_guard lock{mutex_};
    if (task.again_ && !task.is_cancelled_) {
      queue(task, task.due_);
      return;
    }
    // The last use of the task: from here on its owner may destroy it.
    task.stage_.store(background_task::stage::idle, std::memory_order_release);
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::condition_variable ended_;
  boost::intrusive::list<background_task> queue_;
  bool busy_ = false;
  bool is_stopped_ = false;  // the thread has ended, or ends the process
  std::atomic<bool> has_ended_{false};
  background_thread thread_;
};

namespace {

// Made at the start, because its constructor allocates and noexcept functions use it.
[[maybe_unused]] const background_worker& worker_at_start = background_worker::instance();

}  // namespace

bool background_task::submit() noexcept {
  return background_worker::instance().submit(*this, background_worker::clock::now());
}

bool background_task::request_in(std::chrono::microseconds delay) noexcept {
  // The thread that queued the task has already written the data for the body.
  if (stage_.load(std::memory_order_acquire) == stage::queued) return true;
  return background_worker::instance().submit(*this, background_worker::clock::now() + delay);
}

void background_task::run_again_in(std::chrono::microseconds delay) noexcept {
  background_worker::instance().run_again(*this, background_worker::clock::now() + delay);
}

void background_task::cancel_or_wait() noexcept {
  if (pending()) background_worker::instance().cancel_or_wait(*this);
}

bool background_task::is_awaited_by_exit() noexcept {
  return background_worker::instance().has_ended();
}

void set_task_runner(task_runner with) noexcept { runner = with; }

void wait_for_background_tasks() { background_worker::instance().wait_until_idle(); }

}  // namespace hipvmm::detail
