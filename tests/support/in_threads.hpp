// SPDX-License-Identifier: MIT
#pragma once

#include <thread>
#include <vector>

namespace hipvmm::test {

/// Calls `work` with each number below `count`, each in a thread of its own, and waits for all.
template <typename Index, typename Work>
void in_threads(Index count, Work work) {
  std::vector<std::thread> threads;
  for (Index index = 0; index < count; ++index)
    threads.emplace_back([&work, index] { work(index); });
  for (std::thread& each : threads) each.join();
}

/// Calls `work` with each element of `range`, each in a thread of its own, and waits for all.
template <typename Range, typename Work>
void in_a_thread_each(Range&& range, Work work) {
  std::vector<std::thread> threads;
  for (auto& element : range) threads.emplace_back([&work, &element] { work(element); });
  for (std::thread& each : threads) each.join();
}

}  // namespace hipvmm::test
