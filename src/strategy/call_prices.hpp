// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <hipvmm/capability/capability.hpp>

namespace hipvmm::detail {

/// The prices of a chunk, as probes timed HIP's calls on the dearest of the devices that own
/// chunks; 0 if none was timed. Each decision that depends on them is a function here. A decision
/// changes between 200 us, ten times an unmap of NVIDIA's, and the milliseconds that are told of
/// AMD's: chance does not change it.
struct call_prices {
  std::chrono::nanoseconds growth{};  ///< create, map and rights
  std::chrono::nanoseconds unmap{};

  call_prices() = default;
  explicit call_prices(const call_costs& timed) noexcept
      : growth{timed.create + timed.map + timed.set_access}, unmap{timed.unmap} {}

  void raise_to(const call_prices& other) noexcept {
    growth = std::max(growth, other.growth);
    unmap = std::max(unmap, other.unmap);
  }

  [[nodiscard]] bool has_dear_unmaps() const noexcept {
    return unmap >= std::chrono::microseconds{200};
  }
  /// Whether a request that needs the old addresses of chunks unmaps these itself, and does not
  /// take other addresses, which costs up to 2 % more memory.
  [[nodiscard]] bool unmaps_in_requests() const noexcept { return !has_dear_unmaps(); }
  /// Chunks that a trim takes at a time: others wait for fewer, but neighbours take one unmap.
  [[nodiscard]] std::size_t chunks_of_trim() const noexcept { return has_dear_unmaps() ? 64 : 4; }
  /// The time that a request may wait for freed memory, for it would take a growth as long.
  [[nodiscard]] std::chrono::nanoseconds patience() const noexcept {
    using namespace std::chrono_literals;
    return std::clamp<std::chrono::nanoseconds>(growth, 500us, 2ms);
  }
};

}  // namespace hipvmm::detail
