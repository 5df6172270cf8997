// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include <hipvmm/core/driver_calls.hpp>  // IWYU pragma: export

namespace hipvmm::detail {

/// The functions that memory_calls() reports, in its order.
enum class memory_call : std::uint8_t {
  address_free,
  address_reserve,
  create,
  free,
  malloc,
  map,
  release,
  set_access,
  unmap,
};

void add_call(memory_call which, std::chrono::steady_clock::duration time) noexcept;

/// Makes the call, counts it and measures its time. Reading the clock twice costs nothing compared
/// with any of these functions.
template <typename Call>
auto timed(memory_call which, Call call) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = call();
  add_call(which, std::chrono::steady_clock::now() - start);
  return result;
}

}  // namespace hipvmm::detail
