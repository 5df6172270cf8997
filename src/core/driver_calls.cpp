// SPDX-License-Identifier: MIT
#include "core/driver_calls.hpp"

#include <array>
#include <atomic>
#include <cstddef>

namespace hipvmm {
namespace {

constexpr std::array<std::string_view, 9> names{
    "hipMemAddressFree", "hipMemAddressReserve", "hipMemCreate",    "hipFree",    "hipMalloc",
    "hipMemMap",         "hipMemRelease",        "hipMemSetAccess", "hipMemUnmap"};

struct total {
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> nanoseconds{0};
};
std::array<total, names.size()> totals;

}  // namespace

std::vector<driver_calls> memory_calls() {
  std::vector<driver_calls> result;
  for (std::size_t i = 0; i < names.size(); ++i)
    result.push_back(
        {names[i], totals[i].count.load(std::memory_order_relaxed),
         static_cast<double>(totals[i].nanoseconds.load(std::memory_order_relaxed)) / 1e9});
  return result;
}

void detail::add_call(memory_call which, std::chrono::steady_clock::duration time) noexcept {
  total& to = totals[static_cast<std::size_t>(which)];
  to.count.fetch_add(1, std::memory_order_relaxed);
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  to.nanoseconds.fetch_add(static_cast<std::uint64_t>(spent), std::memory_order_relaxed);
}

}  // namespace hipvmm
