// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <hipvmm/capability/capability.hpp>

namespace hipvmm::detail {

/// The prices of a chunk: HIP's calls as probes timed them, on the dearest of the devices that own
/// chunks; 0 if none was timed. All decisions that depend on them are here. An unmap is dear from
/// 200 us on: NVIDIA takes a tenth of that, AMD milliseconds by all reports.
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
  /// Whether a request that needs old addresses of chunks unmaps the chunks itself. Otherwise it
  /// takes other addresses, which costs up to 2 % more memory.
  [[nodiscard]] bool unmaps_in_requests() const noexcept { return !has_dear_unmaps(); }
  /// The most chunks that one step of a pool's trim releases, unless very many are idle. If it is
  /// small, other threads wait less; if it is large, one unmap undoes several.
  [[nodiscard]] std::size_t chunks_of_trim() const noexcept { return has_dear_unmaps() ? 64 : 4; }
  /// The time that a request may wait for freed memory: as long as a growth would take, but at
  /// least 0.5 ms and at most 2 ms.
  [[nodiscard]] std::chrono::nanoseconds patience() const noexcept {
    using namespace std::chrono_literals;
    return std::clamp<std::chrono::nanoseconds>(growth, 500us, 2ms);
  }
};

}  // namespace hipvmm::detail
