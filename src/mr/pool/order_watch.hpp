// SPDX-License-Identifier: MIT
#pragma once

#include "core/stream_order.hpp"
#include "mr/pool/block_allocator.hpp"

namespace hipvmm::mr::pool {

/// Tells the allocator of a pool how streams are ordered by what programs do through hipvmm's
/// streams and events.
class order_watch final : private detail::stream_watcher {
 public:
  /// `device` is whose default streams the allocator know.
  order_watch(block_allocator& allocator, device_ref device)
      : allocator_{allocator}, device_{device} {
    detail::watch_streams(*this);
  }
  ~order_watch() override { detail::end_watch(*this); }

 private:
  [[nodiscard]] detail::stream_point point_of(stream_ref stream, bool poll) override {
    if (!is_known(stream)) return {};
    const block_allocator::stream_epoch reached = allocator_.current_epoch(stream, !poll);
    return {reached.state, reached.epoch};
  }
  void note_follows(stream_ref waiter, const detail::stream_point& point) override {
    if (is_known(waiter)) allocator_.add_dependency(waiter, point_in(point));
  }
  void note_passed(const detail::stream_point& point) override {
    allocator_.note_passed(point_in(point));
  }
  void note_end(stream_ref stream) override { allocator_.forget_ended(stream); }

  /// A default stream is that of the device that is current.
  [[nodiscard]] bool is_known(stream_ref stream) const {
    return (!stream.is_default() && !stream.is_per_thread_default()) ||
           device_ref::current() == device_;
  }
  [[nodiscard]] static block_allocator::stream_epoch point_in(
      const detail::stream_point& point) noexcept {
    return {static_cast<stream_state*>(point.stream), point.count};
  }

  block_allocator& allocator_;
  device_ref device_;
};

}  // namespace hipvmm::mr::pool
