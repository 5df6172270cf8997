// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>

#ifndef NDEBUG
#include <cstdio>
#include <cstdlib>
#endif

namespace hipvmm::detail {

/// The lock order: a thread takes a lock only while it holds none of the same or a higher rank.
/// docs/design/pool_design.md lists what each lock guards.
enum class lock_rank : unsigned {
  pool_slow_path,
  pool_state,
};

/// A mutex with a rank. Debug builds end the process when a thread takes locks out of order.
class ranked_mutex {
 public:
  explicit ranked_mutex(lock_rank rank) noexcept : rank_{rank} {}

  void lock() {
    require_order();
    mutex_.lock();
    note(true);
  }
  void unlock() {
    note(false);
    mutex_.unlock();
  }

 private:
#ifndef NDEBUG
  static unsigned& held() noexcept {
    thread_local constinit unsigned ranks = 0;  // a bit for each rank that the thread holds
    return ranks;
  }
  void require_order() const noexcept {
    if (held() >> static_cast<unsigned>(rank_) == 0) return;
    std::fprintf(stderr, "hipvmm: a lock of rank %u is taken while ranks %#x are held\n",
                 static_cast<unsigned>(rank_), held());
    std::abort();
  }
  void note(bool taken) const noexcept {
    const unsigned bit = 1U << static_cast<unsigned>(rank_);
    held() = taken ? held() | bit : held() & ~bit;
  }
#else
  void require_order() const noexcept {}
  void note(bool) const noexcept {}
#endif

  std::mutex mutex_;
  [[maybe_unused]] lock_rank rank_;  // used in Debug builds
};

}  // namespace hipvmm::detail
