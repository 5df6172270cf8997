// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <ctime>

namespace hipvmm::detail {

/// While an object lives, two writes of its thread fail with an error: of a file longer than the
/// process may make (RLIMIT_FSIZE, `ulimit -f`) by EFBIG, and to a pipe without a reader by EPIPE.
/// Else the signals SIGXFSZ and SIGPIPE end the process too.
/// Cost: two calls of the system, a third one at the end.
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
