// SPDX-License-Identifier: MIT
#include "support/child.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace test {
namespace {

[[noreturn]] void run_child(const std::vector<std::string>& variables,
                            const std::function<void()>& run) {
  // doctest's handlers would write a report of their own.
  std::signal(SIGABRT, SIG_DFL);
  std::signal(SIGSEGV, SIG_DFL);
  prctl(PR_SET_DUMPABLE, 1);
  for (const std::string& each : variables) {
    const std::size_t equals = each.find('=');
    setenv(("HIPVMM_ROCR_" + each.substr(0, equals)).c_str(), each.substr(equals + 1).c_str(), 1);
  }
  alarm(50);
  run();
  std::exit(0);
}

}  // namespace

bool outcome::reported(const std::string& text) const {
  return signal == SIGABRT && errors.find("REPORT: ") != std::string::npos &&
         errors.find(text) != std::string::npos;
}

outcome in_child(const std::vector<std::string>& variables, const std::function<void()>& run) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    run_child(variables, run);
  }
  close(ends[1]);
  outcome got;
  char part[4096];
  for (ssize_t length = 0; (length = read(ends[0], part, sizeof part)) > 0;) {
    got.errors.append(part, static_cast<std::size_t>(length));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  got.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  got.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return got;
}

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "expected: %s\n", what);
  std::fflush(stderr);
  _exit(1);
}

}  // namespace test
