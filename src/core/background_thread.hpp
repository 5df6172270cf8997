// SPDX-License-Identifier: MIT
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/owner_process.hpp"

namespace hipvmm::detail {

/// While one lives, threads that this thread starts block the program's signals, except faults,
/// which go to the thread itself, and a profiler's timer, which goes to all.
class signals_blocked {
 public:
  signals_blocked() noexcept;
  ~signals_blocked();
  signals_blocked& operator=(signals_blocked&&) = delete;

 private:
  ::sigset_t before_;
};

/// While one lives, its thread calls no pressure callback: a callback would delay other work of the
/// library's threads, and must not run during a capture.
using without_pressure_calls = thread_mark<struct without_pressure_calls_kind>;

/// A thread for HIP calls that callers must not make themselves. Thread-safe. An owner that lives
/// as long as the process calls stop() from an exit handler of std::atexit, which runs before HIP's
/// own if it was registered after the first HIP call. Other owners call stop() to wait for work
/// that does not check the token.
class background_thread {
 public:
  /// Must end soon after its stop_token requests so, and not throw. Its calls disturb no captures.
  using body = std::function<void(std::stop_token)>;

  explicit background_thread(body work) : work_{std::move(work)} {}
  ~background_thread() { stop(); }
  background_thread& operator=(background_thread&&) = delete;

  /// Starts the thread unless it runs. Returns false after stop(), in a child of fork(), or when
  /// the system refuses a thread: the caller must then do the work itself.
  bool start() noexcept;
  /// Ends the thread for good. Waits for it, except in itself or a child of fork().
  void stop() noexcept;
  /// Whether this process is a child of the one that started the thread.
  [[nodiscard]] bool is_of_parent() const noexcept;

 private:
  body work_;
  std::mutex mutex_;
  std::jthread thread_;
  std::atomic<::pid_t> process_{0};
  bool stopped_ = false;
};

}  // namespace hipvmm::detail
