// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

class memory_location {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a device is a location
  constexpr memory_location(device_ref device) noexcept : device_{device} {}
  [[nodiscard]] static constexpr memory_location host() noexcept { return {}; }
  /// A NUMA node of the host, by the system's number. Not every release places chunks there;
  /// managed memory takes any node for the host.
  [[nodiscard]] static constexpr memory_location host_node(int node) noexcept {
    memory_location result;
    result.node_ = node;
    return result;
  }

  /// True for the nodes of the host too.
  [[nodiscard]] constexpr bool is_host() const noexcept { return !device_.has_value(); }
  [[nodiscard]] constexpr std::optional<device_ref> device() const noexcept { return device_; }
  [[nodiscard]] constexpr std::optional<int> node() const noexcept { return node_; }

  friend constexpr bool operator==(memory_location a, memory_location b) noexcept {
    return a.device_ == b.device_ && a.node_ == b.node_;
  }
  friend constexpr bool operator!=(memory_location a, memory_location b) noexcept {
    return !(a == b);
  }

 private:
  constexpr memory_location() noexcept = default;
  std::optional<device_ref> device_;
  std::optional<int> node_;
};

}  // namespace hipvmm
