// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hipvmm::detail {

/// The observers of allocations: a bit each, so that pools test once for all of them.
enum class observer : unsigned {
  order_checker = 1,  ///< of the host provider, see race_checker_calls.hpp
  subscription = 2,   ///< see memory_events.hpp
};

extern constinit std::atomic<unsigned> observers;

[[nodiscard]] inline bool is_observed() noexcept {
  return observers.load(std::memory_order_relaxed) != 0;
}
[[nodiscard]] inline bool is_observed_by(observer one) noexcept {
  return (observers.load(std::memory_order_relaxed) & static_cast<unsigned>(one)) != 0;
}
inline void add_observer(observer one) noexcept { observers |= static_cast<unsigned>(one); }
inline void remove_observer(observer one) noexcept { observers &= ~static_cast<unsigned>(one); }

}  // namespace hipvmm::detail
