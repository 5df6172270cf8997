// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <thread>

namespace hipvmm::test {

/// Gives other threads every chance to go wrong. Returns whether `goes_wrong()` came true.
template <typename Predicate>
bool happens(Predicate goes_wrong) {
  for (int i = 0; i < 300; ++i) {
    if (goes_wrong()) return true;
    std::thread{[] {}}.join();
  }
  return false;
}

/// Waits until `done()`, for `most` at most. Returns whether it came true.
template <typename Predicate>
bool comes_true(Predicate done, std::chrono::milliseconds most = std::chrono::seconds{20}) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  return true;
}

}  // namespace hipvmm::test
