// SPDX-License-Identifier: MIT
#pragma once

#include "core/stream_order.hpp"
#include "mr/pool/engine.hpp"

namespace hipvmm::mr::pool {

/// Tells the books of a pool how streams are ordered by what programs do through hipvmm's streams
/// and events.
class order_watch final : private detail::stream_watcher {
 public:
  /// `device` is whose default streams the books know.
  order_watch(engine& books, device_ref device) : books_{books}, device_{device} {
    detail::watch_streams(*this);
  }
  ~order_watch() override { detail::end_watch(*this); }

 private:
  [[nodiscard]] detail::stream_point point_of(stream_ref stream) override {
    if (!is_known(stream)) return {};
    const engine::point reached = books_.reach(stream);
    return {reached.ledger, reached.stamp};
  }
  void note_follows(stream_ref waiter, const detail::stream_point& point) override {
    if (is_known(waiter)) books_.note_follows(waiter, point_in(point));
  }
  void note_passed(const detail::stream_point& point) override {
    books_.note_passed(point_in(point));
  }
  void note_end(stream_ref stream) override { books_.forget_ended(stream); }

  /// A default stream is that of the device that is current.
  [[nodiscard]] bool is_known(stream_ref stream) const {
    return (!stream.is_default() && !stream.is_per_thread_default()) ||
           device_ref::current() == device_;
  }
  [[nodiscard]] static engine::point point_in(const detail::stream_point& point) noexcept {
    return {static_cast<stream_ledger*>(point.stream), point.count};
  }

  engine& books_;
  device_ref device_;
};

}  // namespace hipvmm::mr::pool
