// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace hipvmm::test {

/// Whether a child of fork() that runs `work` ends within some seconds, and `work` returns true.
template <typename Work>
bool succeeds_in_forked_child(Work work) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  if (child < 0) return false;
  int status = 0;
  for (int i = 0; i < 1000; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return false;
}

}  // namespace hipvmm::test
