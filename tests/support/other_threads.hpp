// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

namespace hipvmm::test {

/// Gives other threads every chance to go wrong. Returns whether `goes_wrong()` came true.
template <typename Predicate>
bool happens(Predicate goes_wrong) {
  for (int turn = 0; turn < 300; ++turn) {
    if (goes_wrong()) return true;
    std::thread{[] {}}.join();
  }
  return false;
}

}  // namespace hipvmm::test
