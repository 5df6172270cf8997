// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace hipvmm::detail {

/// A thread for HIP calls that its callers must not make themselves, started when first wanted. An
/// owner that lives as long as the process calls stop() from an exit handler of std::atexit, which
/// runs before HIP's own when it was registered after the first HIP call; others call it to wait
/// for work that does not look at the token. Thread-safe.
class background_thread {
 public:
  /// `body` runs in the thread; it must return soon after its stop_token asks for it, and must not
  /// throw. HIP calls in it disturb no stream capture of another thread.
  using body = std::function<void(std::stop_token)>;

  explicit background_thread(body work) : work_{std::move(work)} {}
  /// As stop().
  ~background_thread() { stop(); }
  background_thread(const background_thread&) = delete;
  background_thread& operator=(const background_thread&) = delete;

  /// Starts the thread unless it runs. Returns false when the process is exiting or the system
  /// refuses a thread: the caller must then do the work itself.
  bool start() noexcept;
  /// Asks the thread to end and waits for it; start() does nothing from then on.
  void stop() noexcept;
  /// Whether it was started before a fork() whose child this process is: there is no thread here,
  /// no start() brings one, and stop() waits for nothing.
  [[nodiscard]] bool is_of_parent() const noexcept;

 private:
  body work_;
  std::mutex mutex_;
  std::jthread thread_;
  std::atomic<::pid_t> process_{0};  // that started it
  bool stopped_ = false;
};

}  // namespace hipvmm::detail
