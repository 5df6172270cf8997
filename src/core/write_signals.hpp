// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <ctime>

namespace hipvmm::detail {

/// While one lives, its thread's writes past RLIMIT_FSIZE (`ulimit -f`) fail with EFBIG and those
/// to a pipe without a reader with EPIPE, without SIGXFSZ and SIGPIPE. Cost: three system calls.
class without_write_signals {
 public:
  without_write_signals() noexcept {
    ::sigemptyset(&signals_);
    for (const int each : {SIGXFSZ, SIGPIPE}) ::sigaddset(&signals_, each);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~without_write_signals() {
    // A signal that waited before is the program's own.
    for (const int each : {SIGXFSZ, SIGPIPE})
      if (::sigismember(&before_, each) == 1) ::sigdelset(&signals_, each);
    const ::timespec at_once{};
    while (::sigtimedwait(&signals_, nullptr, &at_once) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  without_write_signals& operator=(without_write_signals&&) = delete;

 private:
  ::sigset_t signals_{};
  ::sigset_t before_{};
};

}  // namespace hipvmm::detail
