// SPDX-License-Identifier: MIT
#pragma once

#include "mr/pool/allocator/block_allocator.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm::mr::pool {

/// Reports to the allocator of a pool how the program orders streams through hipvmm's streams and
/// events.
class order_watch final : private detail::stream_watcher {
 public:
  /// `device`: the device whose default streams the allocator knows.
  order_watch(block_allocator& allocator, device_ref device)
      : allocator_{allocator}, device_{device} {
    detail::watch_streams(*this);
  }
  ~order_watch() override { detail::end_watch(*this); }

 private:
  [[nodiscard]] detail::stream_point point_of(ihipStream_t* handle, bool poll) override {
    const stream_ref stream{handle};
    if (!is_known(stream)) return {};
    const block_allocator::stream_epoch reached = allocator_.current_epoch(stream, !poll);
    return {reached.state, reached.epoch};
  }
  void add_dependency(ihipStream_t* handle, const detail::stream_point& point) override {
    const stream_ref waiter{handle};
    if (is_known(waiter)) allocator_.add_dependency(waiter, point_in(point));
  }
  void note_passed(const detail::stream_point& point) override {
    allocator_.note_passed(point_in(point));
  }
  void note_end(ihipStream_t* stream) override { allocator_.forget_ended(stream); }

  /// A default stream belongs to the current device.
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
