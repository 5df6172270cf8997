// SPDX-License-Identifier: MIT
#include "order_streams.hpp"

#include <algorithm>

namespace hipvmm::host_provider {

order_streams::record& order_streams::record_of(const stream_queue& stream) {
  return records_
      .try_emplace(stream.number(),
                   record{{stream.device(), stream.order(), 0, stream.number()}, {}})
      .first->second;
}

void order_streams::name(const stream_queue& stream, std::uint64_t handle) {
  record_of(stream).what.handle = handle;
}

void order_streams::retire(const stream_queue& stream) {
  const auto at = records_.find(stream.number());
  if (at == records_.end()) return;
  at->second.retired = true;
  if (at->second.is_over()) records_.erase(at);
}

void order_streams::overlook(const stream_queue& stream) { record_of(stream).overlooked = true; }

void order_streams::include_all(order_clock& clock, int device, stream_order order) const {
  for (const auto& [number, each] : records_) {
    if (each.what.device == device && each.what.order == order && !each.overlooked)
      clock.include(each.clock);
  }
}

const order_clock& order_streams::place(const stream_queue& stream) {
  record& own = record_of(stream);
  if (own.what.order == stream_order::null) {
    include_all(own.clock, own.what.device, stream_order::blocking);
  } else if (own.what.order == stream_order::blocking) {
    include_all(own.clock, own.what.device, stream_order::null);
  }
  own.clock.forget_if(
      [this](stream_number number, std::uint64_t count) { return is_known(number, count); });
  return own.clock;
}

std::uint64_t order_streams::advance(const stream_queue& stream) {
  record& own = record_of(stream);
  own.clock.include(stream.number(), ++own.submitted);
  return own.submitted;
}

void order_streams::follow(const stream_queue& stream, const order_clock& earlier) {
  record_of(stream).clock.include(earlier);
}

order_clock order_streams::end_of(const stream_queue& stream) {
  const record& own = record_of(stream);
  order_clock end = own.clock;
  if (own.what.order == stream_order::null) {
    include_all(end, own.what.device, stream_order::blocking);
  }
  return end;
}

order_clock order_streams::end_of_device(int device) const {
  order_clock end;
  for (const auto& [number, each] : records_) {
    if (each.what.device == device && !each.overlooked) end.include(each.clock);
  }
  return end;
}

void order_streams::learn(const order_clock& finished) {
  finished.visit([this](stream_number number, std::uint64_t count) {
    const auto at = records_.find(number);
    if (at == records_.end()) return;
    at->second.known = std::max(at->second.known, count);
    if (at->second.is_over()) records_.erase(at);
  });
}

bool order_streams::is_known(stream_number stream, std::uint64_t count) const noexcept {
  const auto at = records_.find(stream);
  return at == records_.end() || at->second.known >= count;
}

order_stream order_streams::describe(const stream_queue& stream) { return record_of(stream).what; }

}  // namespace hipvmm::host_provider
