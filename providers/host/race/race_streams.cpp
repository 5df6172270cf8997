// SPDX-License-Identifier: MIT
#include "race/race_streams.hpp"

#include <algorithm>

namespace hipvmm::host_provider {

race_streams::record& race_streams::record_of(const stream_queue& stream) {
  return records_
      .try_emplace(stream.number(),
                   record{{stream.device(), stream.order(), 0, stream.number()}, {}})
      .first->second;
}

void race_streams::name(const stream_queue& stream, std::uint64_t handle) {
  record_of(stream).what.handle = handle;
}

void race_streams::retire(const stream_queue& stream) {
  const auto at = records_.find(stream.number());
  if (at == records_.end()) return;
  at->second.retired = true;
  if (at->second.is_over()) records_.erase(at);
}

void race_streams::overlook(const stream_queue& stream) { record_of(stream).overlooked = true; }

void race_streams::include_all(race_clock& clock, int device, stream_order order) const {
  for (const auto& [number, each] : records_) {
    if (each.what.device == device && each.what.order == order && !each.overlooked)
      clock.include(each.clock);
  }
}

const race_clock& race_streams::place(const stream_queue& stream) {
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

std::uint64_t race_streams::advance(const stream_queue& stream) {
  record& own = record_of(stream);
  own.clock.include(stream.number(), ++own.submitted);
  return own.submitted;
}

void race_streams::follow(const stream_queue& stream, const race_clock& earlier) {
  record_of(stream).clock.include(earlier);
}

race_clock race_streams::end_of(const stream_queue& stream) {
  const record& own = record_of(stream);
  race_clock end = own.clock;
  if (own.what.order == stream_order::null) {
    include_all(end, own.what.device, stream_order::blocking);
  }
  return end;
}

race_clock race_streams::end_of_device(int device) const {
  race_clock end;
  for (const auto& [number, each] : records_) {
    if (each.what.device == device && !each.overlooked) end.include(each.clock);
  }
  return end;
}

void race_streams::learn(const race_clock& finished) {
  finished.visit([this](stream_number number, std::uint64_t count) {
    const auto at = records_.find(number);
    if (at == records_.end()) return;
    at->second.known = std::max(at->second.known, count);
    if (at->second.is_over()) records_.erase(at);
  });
}

bool race_streams::is_known(stream_number stream, std::uint64_t count) const noexcept {
  const auto at = records_.find(stream);
  return at == records_.end() || at->second.known >= count;
}

race_stream race_streams::describe(const stream_queue& stream) { return record_of(stream).what; }

}  // namespace hipvmm::host_provider
