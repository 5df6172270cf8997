// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include <hipvmm/runtime/device.hpp>
#include "mr/pool/backend/backend.hpp"
#include "region/device_work.hpp"

namespace hipvmm::mr::pool {

/// Makes fences from HIP events. Events are reused; fences may outlive this.
class event_fences final : public fence_source {
 public:
  /// `streams_report_ends`: the program reports the end of each stream before it destroys it.
  event_fences(device_ref owner, bool streams_report_ends);

  /// True on CUDA for streams, other than default streams, that do not report their ends.
  [[nodiscard]] bool may_vanish(stream_ref stream) const override;

  /// For streams of any device, because copies through the host need no access. After the stream's
  /// end the fence covers all devices that have a context.
  [[nodiscard]] std::shared_ptr<const fence> fence_for(stream_ref stream) override;
  [[nodiscard]] std::shared_ptr<const fence> fence_for_all() override;
  [[nodiscard]] std::shared_ptr<const fence> fence_for_gone() override;
  void note_unknown_user() noexcept override { has_unknown_users_ = true; }
  [[nodiscard]] bool fences_need_streams() const override;
  void synchronize() override;
  /// Streams of `device` may use the memory too.
  void add(device_ref device);
  /// Waits for devices without access whose streams freed memory, or may have.
  void synchronize_without_access();

 private:
  struct spare_events;
  class event_fence;
  class device_fence;

  [[nodiscard]] detail::device_list devices();
  /// devices(), and others that have a context.
  [[nodiscard]] detail::device_list all_devices();
  [[nodiscard]] detail::device_list users() {
    return has_unknown_users_ ? all_devices() : devices();
  }
  void note_user(device_ref device);

  std::mutex mutex_;
  detail::device_list devices_;         // with access, the owner first
  detail::device_list without_access_;  // their streams have freed memory
  // A stream was gone before a fence, so waits are for all devices with a context.
  std::atomic<bool> has_unknown_users_{false};
  std::shared_ptr<spare_events> spare_;
  const bool streams_may_vanish_;
};

}  // namespace hipvmm::mr::pool
