// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <ctime>

namespace hipvmm::detail {

/// While an object lives, a call of its thread that would make a file longer than the process may
/// (RLIMIT_FSIZE, `ulimit -f`) fails by EFBIG. Else the signal SIGXFSZ ends the process too.
/// Cost: two calls of the system, a third one at the end.
class without_file_size_signal {
 public:
  without_file_size_signal() noexcept {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~without_file_size_signal() {
    // A signal that waited before is the program's own.
    if (::sigismember(&before_, SIGXFSZ) == 1) return;
    const ::timespec at_once{};
    while (::sigtimedwait(&signal_, nullptr, &at_once) == SIGXFSZ) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  without_file_size_signal& operator=(without_file_size_signal&&) = delete;

 private:
  ::sigset_t signal_{};
  ::sigset_t before_{};
};

}  // namespace hipvmm::detail
