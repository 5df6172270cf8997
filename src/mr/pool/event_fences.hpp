// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/event.hpp>
#include "mr/pool/backend.hpp"

namespace hipvmm::mr::pool {

/// Marks that are HIP's events. Events are used again; fences may outlive this.
class event_fences final : public fence_source {
 public:
  explicit event_fences(device_ref owner);

  /// The stream may belong to the owner or to another device that was named. For one that HIP does
  /// not know, since it was destroyed, the caller waits for all of these.
  [[nodiscard]] std::shared_ptr<const fence> fence_for(stream_ref stream) override;
  /// Waits for all work of all devices that may use the memory.
  void synchronize() override;
  /// Streams of `device` may use the memory too.
  void add(device_ref device);

 private:
  struct spare_events;
  class event_fence;

  [[nodiscard]] std::vector<device_ref> devices();

  std::mutex mutex_;
  std::vector<device_ref> devices_;  // the owner first
  std::shared_ptr<spare_events> spare_;
};

}  // namespace hipvmm::mr::pool
