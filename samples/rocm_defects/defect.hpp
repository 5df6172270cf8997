// SPDX-License-Identifier: MIT
// The common parts of this folder's programs. README.md says how to build, run and report.
#pragma once

#include <hip/hip_runtime_api.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

enum outcome { as_documented = 0, defect_seen = 1, cannot_ask = 77 };

// Prints the result and ends the program, even if its threads and streams still work.
[[noreturn]] inline void finish(outcome result, const std::string& reason) {
  const char* const words = result == as_documented ? "as documented"
                            : result == defect_seen ? "DEFECT SEEN"
                                                    : "cannot be asked here";
  std::printf("result    %s: %s\n", words, reason.c_str());
  std::fflush(stdout);
  std::_Exit(result);
}

// A call that must succeed before the question can be asked.
#define REQUIRE(call) require((call), #call)
inline void require(hipError_t result, const char* call) {
  if (result != hipSuccess)
    finish(cannot_ask, std::string{call} + " gave " + hipGetErrorName(result));
}

// Prints the question and its device, and ends the program after a minute.
inline int begin(const char* question, int gpus = 1) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::signal(SIGALRM, [](int) {
    constexpr char text[] = "result    cannot be asked here: no answer for 60 s\n";
    _exit(write(STDOUT_FILENO, text, sizeof text - 1) > 0 ? cannot_ask : defect_seen);
  });
  alarm(60);
  int found = 0, runtime = 0;
  if (hipGetDeviceCount(&found) != hipSuccess || found < gpus)
    finish(cannot_ask,
           std::to_string(gpus) + " GPUs are needed, " + std::to_string(found) + " are here");
  hipDeviceProp_t device{};
  REQUIRE(hipGetDeviceProperties(&device, 0));
  REQUIRE(hipRuntimeGetVersion(&runtime));
  std::printf("expected  %s\ndevice    %s %s, HIP runtime %d\n", question, device.name,
              device.gcnArchName, runtime);
  return as_documented;
}

// Runs `ask` in a process of its own, for at most 20 seconds; the caller must not have used HIP.
// Its exit status, or 128 and the number of the signal that ended it, which is printed.
template <typename Ask>
int in_child(Ask ask) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGALRM, SIG_DFL);
    alarm(20);
    const int status = ask();
    std::fflush(stdout);
    std::_Exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::printf("ended by signal %d\n", WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

// Whether `done` becomes true within so many milliseconds, about.
template <typename Condition>
bool comes_true(Condition done, int limit = 2000) {
  for (int ms = 0; ms < limit && !done(); ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return done();
}

// A callback that holds a stream: work enqueued behind it does not begin before open(). ROCm 5.2
// has no hipLaunchHostFunc yet.
struct gate {
  std::atomic<bool> is_open{false};
  explicit gate(hipStream_t stream) { REQUIRE(hipStreamAddCallback(stream, hold, this, 0)); }
  void open() { is_open = true; }
  static void hold(hipStream_t, hipError_t, void* self) {
    while (!static_cast<gate*>(self)->is_open)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
};
