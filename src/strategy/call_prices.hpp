// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <hipvmm/capability/capability.hpp>

namespace hipvmm::detail {

/// Times of HIP's calls for a chunk, from probes, on the slowest of the devices that own chunks; 0
/// if none was timed. All decisions that depend on them are here.
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

  /// An unmap takes a tenth of this on NVIDIA, and milliseconds on AMD by all reports.
  [[nodiscard]] bool has_dear_unmaps() const noexcept {
    return unmap >= std::chrono::microseconds{200};
  }
  /// Whether a request unmaps chunks itself to get their old addresses. Otherwise it takes other
  /// addresses, which costs up to 2 % more memory.
  [[nodiscard]] bool unmaps_in_requests() const noexcept { return !has_dear_unmaps(); }
  /// The most chunks that one step of a pool's trim releases, unless very many are idle. Few delay
  /// other threads less; many can share a call that unmaps several.
  [[nodiscard]] std::size_t chunks_of_trim() const noexcept { return has_dear_unmaps() ? 64 : 4; }
  /// The time that a request may wait for freed memory instead of growth.
  [[nodiscard]] std::chrono::nanoseconds patience() const noexcept {
    using namespace std::chrono_literals;
    return std::clamp<std::chrono::nanoseconds>(growth, 500us, 2ms);
  }
};

}  // namespace hipvmm::detail
