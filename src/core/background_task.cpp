// SPDX-License-Identifier: MIT
#include "core/background_task.hpp"

#include <boost/intrusive/list.hpp>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "core/background_thread.hpp"

namespace hipvmm::detail {

class background_worker {
 public:
  static background_worker& instance() {
    // Never destroyed: owners of static storage may settle their tasks while the process exits.
    static auto& worker = *new background_worker;
    return worker;
  }

  bool submit(background_task& task) noexcept {
    static const bool ends_at_exit = std::atexit([] { instance().thread_.stop(); }) == 0;
    if (!ends_at_exit || !thread_.start()) return false;
    {
      const std::lock_guard lock{mutex_};
      queue_.push_back(task);
      task.stage_.store(background_task::stage::queued, std::memory_order_release);
    }
    wanted_.notify_one();
    return true;
  }

  void settle(background_task& task) noexcept {
    std::unique_lock lock{mutex_};
    if (task.stage_ == background_task::stage::queued) {
      queue_.erase(queue_.iterator_to(task));
      task.stage_.store(background_task::stage::idle, std::memory_order_release);
      ended_.notify_all();
    }
    ended_.wait(lock, [&task] { return task.stage_ == background_task::stage::idle; });
  }

  void wait_until_idle() {
    std::unique_lock lock{mutex_};
    ended_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }

 private:
  background_worker() : thread_{[this](const std::stop_token& stop) { work(stop); }} {}

  void work(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (wanted_.wait(lock, stop, [this] { return !queue_.empty(); }) && !stop.stop_requested()) {
      background_task& task = queue_.front();
      queue_.pop_front();
      task.stage_.store(background_task::stage::running, std::memory_order_relaxed);
      busy_ = true;
      lock.unlock();
      task.body_();
      lock.lock();
      busy_ = false;
      // The last use of the task: from here on its owner may destroy it.
      task.stage_.store(background_task::stage::idle, std::memory_order_release);
      ended_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wanted_;
  std::condition_variable ended_;
  boost::intrusive::list<background_task> queue_;
  bool busy_ = false;
  background_thread thread_;
};

bool background_task::submit() noexcept { return background_worker::instance().submit(*this); }

void background_task::settle() noexcept {
  if (pending()) background_worker::instance().settle(*this);
}

void wait_for_background_tasks() { background_worker::instance().wait_until_idle(); }

}  // namespace hipvmm::detail
