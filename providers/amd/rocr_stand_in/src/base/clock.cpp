// SPDX-License-Identifier: MIT
#include "src/base/clock.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace stand_in {

std::uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void sleep_microseconds(std::uint64_t microseconds) {
  timespec left{static_cast<time_t>(microseconds / 1000000),
                static_cast<long>(microseconds % 1000000 * 1000)};
  while (nanosleep(&left, &left) != 0) {
  }
}

int thread_id() { return static_cast<int>(syscall(SYS_gettid)); }

}  // namespace stand_in
