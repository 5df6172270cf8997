// SPDX-License-Identifier: MIT
#include "region/sleep/copy_jobs.hpp"

#include <algorithm>
#include <utility>

namespace hipvmm::detail {

void copy_jobs::add(std::function<void()> job) {
  if (!thread_.start()) {
    job();
    ++added_;
    ++ended_;
    return;
  }
  {
    const std::lock_guard lock{mutex_};
    if (!failure_) waiting_.push_back(std::move(job));
    ++added_;
  }
  changed_.notify_all();
}

void copy_jobs::wait_for(std::size_t count) {
  std::unique_lock lock{mutex_};
  const std::size_t wanted = std::min(count, added_);
  changed_.wait(lock, [&] { return ended_ >= wanted || failure_; });
  if (ended_ < wanted) std::rethrow_exception(failure_);
}

void copy_jobs::cancel() noexcept {
  {
    const std::lock_guard lock{mutex_};
    waiting_.clear();
  }
  thread_.stop();
}

void copy_jobs::run(const std::stop_token& stop) noexcept {
  std::unique_lock lock{mutex_};
  while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
    const std::function<void()> job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failure_ = failure;
      waiting_.clear();
    } else {
      ++ended_;
    }
    changed_.notify_all();
  }
}

}  // namespace hipvmm::detail
