// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "base/settings.hpp"
#include "memory/address.hpp"

namespace hipvmm::host_provider {

/// The links of the machine, and the enabled peers. Thread-safe.
class peer_table {
 public:
  explicit peer_table(const settings& machine) noexcept : links_{machine.links} {}

  [[nodiscard]] device_set linked_to(int device) const noexcept {
    return links_[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] bool any_linked() const noexcept {
    return std::any_of(links_.begin(), links_.end(), [](device_set to) { return to != 0; });
  }
  [[nodiscard]] bool reaches(int user, int owner) const noexcept {
    return user == owner || (linked_to(owner) & only(user)) != 0;
  }
  /// Devices whose hipMalloc memory `device` may use since hipDeviceEnablePeerAccess.
  [[nodiscard]] device_set enabled_by(int device) const noexcept {
    return enabled_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }
  /// Returns: whether it was enabled before.
  bool enable(int device, int peer) noexcept {
    return (enabled_[static_cast<std::size_t>(device)].fetch_or(only(peer)) & only(peer)) != 0;
  }
  /// Returns: whether it was enabled before.
  bool disable(int device, int peer) noexcept {
    return (enabled_[static_cast<std::size_t>(device)].fetch_and(~only(peer)) & only(peer)) != 0;
  }
  void disable_all(int device) noexcept { enabled_[static_cast<std::size_t>(device)] = 0; }

 private:
  const std::vector<device_set>& links_;
  std::array<std::atomic<device_set>, max_devices> enabled_{};
};

}  // namespace hipvmm::host_provider
