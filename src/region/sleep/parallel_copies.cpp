// SPDX-License-Identifier: MIT
#include "region/sleep/parallel_copies.hpp"

#include <algorithm>
#include <exception>

#include <hipvmm/runtime/copy.hpp>
#include "runtime/event.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::size_t most_streams = 4;  // enough for a device's engines in either direction

}  // namespace

const stream& parallel_copies::next_stream(device_ref device) {
  copy_streams& streams = of_devices_[device.ordinal()];
  if (streams.all.size() < most_streams && streams.next == streams.all.size())
    streams.all.emplace_back(device);
  ++streams.unmarked;
  return streams.all[streams.next++ % streams.all.size()];
}

void parallel_copies::add(device_ref device, void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += piece_bytes) {
    const stream& in = next_stream(device);
    may_be_running_ = true;
    copy_async(in, static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done,
               std::min(piece_bytes, bytes - done));
  }
}

void parallel_copies::fill_zeros(device_ref device, void* to, std::size_t bytes) {
  const stream& in = next_stream(device);
  may_be_running_ = true;
  fill_async(in, to, 0, bytes);
}

std::vector<event> parallel_copies::mark() {
  std::vector<event> result;
  for (auto& [ordinal, streams] : of_devices_) {
    for (std::size_t i = std::min(streams.unmarked, streams.all.size()); i != 0; --i) {
      const event& last = result.emplace_back(device_ref{ordinal});
      record_without_notify(last, streams.all[(streams.next - i) % streams.all.size()]);
    }
    streams.unmarked = 0;
  }
  return result;
}

bool waits_for(const stream& copies) noexcept {
  // The first wait may report a failed copy instead of a refused wait.
  for (int tries = 2; tries != 0; --tries) {
    try {
      copies.synchronize();
      return true;
    } catch (const std::exception&) {
    }
  }
  return false;
}

void parallel_copies::finish() {
  for (auto& [ordinal, streams] : of_devices_) {
    for (const stream& each : streams.all) each.synchronize();
    streams.next = 0;
    streams.unmarked = 0;
  }
  may_be_running_ = false;
}

bool parallel_copies::drain() noexcept {
  if (!may_be_running_) return true;
  bool drained = true;
  for (const auto& [ordinal, streams] : of_devices_) {
    for (const stream& each : streams.all) drained = waits_for(each) && drained;
  }
  may_be_running_ = !drained;
  return drained;
}

void parallel_copies::end_streams() noexcept {
  static_cast<void>(drain());
  of_devices_.clear();
  may_be_running_ = false;
}

}  // namespace hipvmm::detail
