// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <future>

namespace hipvmm::test {

/// Whether the task beside has ended.
template <typename Result>
bool is_ready(const std::future<Result>& beside) {
  return beside.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
}

}  // namespace hipvmm::test
