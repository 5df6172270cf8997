// SPDX-License-Identifier: MIT
#include "ipc/budget/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <limits>

namespace hipvmm::detail {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void wait_while_equal(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                      std::chrono::milliseconds limit) noexcept {
  const auto left = std::max(limit.count(), std::chrono::milliseconds::rep{0});
  struct timespec time {};
  time.tv_sec = static_cast<std::time_t>(left / 1000);
  time.tv_nsec = static_cast<long>(left % 1000 * 1'000'000);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void change_and_wake(std::atomic<std::uint32_t>& word) noexcept {
  word.fetch_add(1);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace hipvmm::detail
