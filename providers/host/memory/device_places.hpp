// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "memory/address.hpp"

namespace hipvmm::host_provider {

/// Places of this process's devices in the machine, which distinguish them in every process.
class device_places {
 public:
  /// `places` by device; the caller keeps it.
  explicit device_places(const std::vector<int>& places) noexcept : places_{places} {}

  [[nodiscard]] int place_of(int device) const noexcept {
    return places_[static_cast<std::size_t>(device)];
  }
  /// hipInvalidDeviceId if this process has no such device.
  [[nodiscard]] int device_at(int place) const noexcept {
    for (std::size_t id = 0; id < places_.size(); ++id) {
      if (places_[id] == place) return static_cast<int>(id);
    }
    return hipInvalidDeviceId;
  }
  /// The same of sets, as other processes read them.
  [[nodiscard]] device_set places_of(device_set devices) const noexcept {
    device_set places = 0;
    for (std::size_t id = 0; id < places_.size(); ++id) {
      if ((devices & only(static_cast<int>(id))) != 0) places |= only(places_[id]);
    }
    return places;
  }
  [[nodiscard]] device_set devices_at(device_set places) const noexcept {
    device_set devices = 0;
    for (std::size_t id = 0; id < places_.size(); ++id) {
      if ((places & only(places_[id])) != 0) devices |= only(static_cast<int>(id));
    }
    return devices;
  }

 private:
  const std::vector<int>& places_;
};

}  // namespace hipvmm::host_provider
