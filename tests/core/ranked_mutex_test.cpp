// SPDX-License-Identifier: MIT
#include "core/ranked_mutex.hpp"

#include <csignal>

#include "support/test.hpp"

namespace hipvmm::test {
namespace {

using detail::lock_rank;
using detail::ranked_mutex;

TEST_CASE("ranked_mutex: locks are taken by rising rank, and again after they were left") {
  ranked_mutex outer{lock_rank::pool_slow_path};
  ranked_mutex inner{lock_rank::pool_state};
  for (int i = 0; i < 2; ++i) {
    const std::lock_guard first{outer};
    const std::lock_guard second{inner};
  }
  // The outer one goes first.
  std::unique_lock first{outer};
  const std::lock_guard second{inner};
  first.unlock();
  CHECK_FALSE(first.owns_lock());
}

#ifndef NDEBUG
HIPVMM_CHILD("a lock is taken against its rank") {
  ranked_mutex outer{lock_rank::pool_slow_path};
  ranked_mutex inner{lock_rank::pool_state};
  const std::lock_guard first{inner};
  const std::lock_guard second{outer};
}

HIPVMM_CHILD("a lock of the same rank is taken twice") {
  ranked_mutex one{lock_rank::pool_state};
  ranked_mutex other{lock_rank::pool_state};
  const std::lock_guard first{one};
  const std::lock_guard second{other};
}

TEST_CASE("ranked_mutex: a Debug build ends where locks are taken out of order") {
  for (const char* const name :
       {"a lock is taken against its rank", "a lock of the same rank is taken twice"}) {
    const child_result child = run_child(name);
    CHECK(child.status == 128 + SIGABRT);
    CHECK_MESSAGE(child.output.find("lock of rank") != std::string::npos, child.output);
  }
}
#endif

}  // namespace
}  // namespace hipvmm::test
