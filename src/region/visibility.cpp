// SPDX-License-Identifier: MIT
#include "region/visibility.hpp"

#include <atomic>
#include <thread>

namespace hipvmm::detail {
namespace {

std::atomic<std::uint64_t> waits{0};

}  // namespace

void wait_until(moment when) noexcept {
  if (when <= std::chrono::steady_clock::now()) return;
  waits.fetch_add(1, std::memory_order_relaxed);
  std::this_thread::sleep_until(when);
}

std::uint64_t waits_so_far() noexcept { return waits.load(std::memory_order_relaxed); }

}  // namespace hipvmm::detail
