// SPDX-License-Identifier: MIT
#include "core/background_thread.hpp"

#include <unistd.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"

namespace hipvmm::detail {

signals_blocked::signals_blocked() noexcept {
  ::sigset_t all;
  ::sigfillset(&all);
  for (const int each : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF})
    ::sigdelset(&all, each);
  ::pthread_sigmask(SIG_BLOCK, &all, &before_);
}

signals_blocked::~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool background_thread::is_of_parent() const noexcept {
  const ::pid_t process = process_;
  return process != 0 && process != ::getpid();
}

bool background_thread::start() noexcept {
  if (is_of_parent()) return false;
  const std::lock_guard lock{mutex_};
  if (stopped_) return false;
  if (thread_.joinable()) return true;
  process_ = ::getpid();  // before the start: another thread may fork()
  try {
    const signals_blocked inherited;
    thread_ = std::jthread{[this](const std::stop_token& stop) {
      const without_pressure_calls marked;
      std::optional<relaxed_captures> relaxed;
      report_exceptions([&] {
        try {
          relaxed.emplace();
        } catch (const hip_error& error) {
          // Without a device nothing is captured.
          if (error.code() != hipErrorNoDevice) throw;
        }
      });
      work_(stop);
    }};
  } catch (const std::exception&) {
    process_ = 0;
    return false;
  }
  return true;
}

void background_thread::stop() noexcept {
  if (is_of_parent()) {
    // A join would never end, and the lock may be held for good.
    static_cast<void>(new (std::nothrow) std::jthread{std::move(thread_)});
    return;
  }
  std::jthread ending;
  {
    const std::lock_guard lock{mutex_};
    stopped_ = true;
    ending = std::move(thread_);
  }
  // Outside the lock, because the work may want to start the thread. This may be the thread itself,
  // if an error handler ends the process there.
  if (ending.get_id() == std::this_thread::get_id()) ending.detach();
}

}  // namespace hipvmm::detail
