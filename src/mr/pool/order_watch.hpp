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
    return is_known(stream) ? allocator_.current_epoch(stream, !poll) : detail::stream_point{};
  }
  void add_dependency(ihipStream_t* handle, const detail::stream_point& point) override {
    const stream_ref waiter{handle};
    if (is_known(waiter)) allocator_.add_dependency(waiter, point);
  }
  void note_passed(const detail::stream_point& point) override { allocator_.note_passed(point); }
  void note_end(ihipStream_t* stream) override { allocator_.forget_ended(stream); }

  /// A default stream belongs to the current device.
  [[nodiscard]] bool is_known(stream_ref stream) const {
    return (!stream.is_default() && !stream.is_per_thread_default()) ||
           device_ref::current() == device_;
  }

  block_allocator& allocator_;
  device_ref device_;
};

}  // namespace hipvmm::mr::pool
