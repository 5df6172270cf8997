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

/// `timed{which}(call(...))` counts and times a call: C++17 constructs the object first.
class timed {
 public:
  explicit timed(memory_call which) noexcept : which_{which} {}
  template <typename Result>
  Result operator()(Result result) const noexcept {
    add_call(which_, std::chrono::steady_clock::now() - start_);
    return result;
  }

 private:
  memory_call which_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace hipvmm::detail
