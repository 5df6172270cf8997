// SPDX-License-Identifier: MIT
#include "vmm/descriptor_closer.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/background_thread.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto patience = 200ms;  // a caller waits so long for a close
constexpr auto start_time = 2s;   // and for a thread to begin
constexpr int most_lapses = 3;    // such closes; after more no caller waits for `distrust`
constexpr auto distrust = 1min;
constexpr auto idle_time = 1s;
constexpr std::size_t most_threads = 64;  // more closes queue

void close_here(int descriptor) noexcept {
  // Most sockets then do not linger; the sender can undo it.
  const linger none{1, 0};
  static_cast<void>(::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &none, sizeof none));
  // On Linux a failed close has closed the descriptor.
  ::close(descriptor);
}

/// A thread may be in a close when the program unloads this library.
void keep_this_library() noexcept {
  static std::atomic<bool> is_kept{false};
  if (is_kept.exchange(true)) return;
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&close_foreign), &found) != 0 &&
      found.dli_fname != nullptr)
    static_cast<void>(::dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

class closing_threads {
 public:
  /// Returns false if there is no thread and none can start.
  bool take(int descriptor) {
    if (process_.is_of_parent()) return false;
    std::unique_lock lock{mutex_};
    queue_.push_back(descriptor);
    if (idle_ < queue_.size() && threads_ < most_threads && !start() && threads_ == 0) {
      queue_.pop_back();
      return false;
    }
    ++pending_;
    work_.notify_one();
    wait(lock);
    return true;
  }

 private:
  void wait(std::unique_lock<std::mutex>& lock) {
    const auto began = clock::now();
    // A close that lasted once is not waited for again.
    if (lasts_ || began < waits_from_) return;
    const auto is_late = [&] {
      const auto now = clock::now();
      return now >= began + start_time || (closing_ != 0 && now >= began_closing_ + patience);
    };
    while (pending_ != 0 && !is_late()) done_.wait_for(lock, patience / 10);
    lasts_ = pending_ != 0;
    if (lasts_ && ++lapses_ > most_lapses) waits_from_ = clock::now() + distrust;
  }

  bool start() noexcept {
    try {
      const signals_blocked inherited;
      std::thread{[this] { serve(); }}.detach();
    } catch (const std::exception&) {
      return false;
    }
    ++threads_;
    return true;
  }

  void serve() {
    std::unique_lock lock{mutex_};
    for (;;) {
      ++idle_;
      const bool has_work = work_.wait_for(lock, idle_time, [&] { return !queue_.empty(); });
      --idle_;
      if (!has_work) break;
      const int descriptor = queue_.front();
      queue_.pop_front();
      if (closing_++ == 0) began_closing_ = clock::now();
      lock.unlock();
      close_here(descriptor);
      lock.lock();
      --closing_;
      if (--pending_ != 0) continue;
      lasts_ = false;
      done_.notify_all();
    }
    --threads_;
  }

  const owner_process process_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<int> queue_;
  std::size_t pending_ = 0;
  std::size_t closing_ = 0;
  clock::time_point began_closing_;  // of the first in a row
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
  bool lasts_ = false;  // a caller stopped waiting for a close
  int lapses_ = 0;
  clock::time_point waits_from_ = clock::time_point::min();
};

bool close_in_thread(int descriptor) noexcept {
  keep_this_library();
  try {
    return only<closing_threads>().take(descriptor);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void close_foreign(int descriptor) noexcept {
  // A thread might close the number after another descriptor gets it.
  if (descriptor < 0 || ::fcntl(descriptor, F_GETFD) == -1) return;
  if (::fcntl(descriptor, F_GET_SEALS) >= 0)
    ::close(descriptor);
  else if (!close_in_thread(descriptor))
    close_here(descriptor);
}

}  // namespace hipvmm::detail
