// SPDX-License-Identifier: MIT
#include "region/sleep/parallel_copies.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::detail {
namespace {

// Enough for the engines of a device in either direction; a copy is cut so that all have work.
constexpr std::size_t most_streams = 4;
constexpr std::size_t piece_bytes = 32 * MiB;

/// The streams of one device, in turn.
struct copy_streams {
  std::vector<stream> all;
  std::size_t next = 0;
};

/// Waits for all streams, whatever some of them say. Returns whether all were waited for.
bool drain(std::map<int, copy_streams>& of_devices) noexcept {
  bool drained = true;
  for (auto& [ordinal, streams] : of_devices) {
    for (const stream& each : streams.all) {
      try {
        each.synchronize();
      } catch (const std::exception&) {
        drained = false;
      }
    }
  }
  return drained;
}

}  // namespace

void copy_in_parallel(const std::vector<parallel_copy>& copies, bool& may_be_running) {
  std::map<int, std::size_t> pieces;
  for (const parallel_copy& each : copies)
    pieces[each.device.ordinal()] += (each.bytes + piece_bytes - 1) / piece_bytes;
  std::map<int, copy_streams> of_devices;
  for (const auto& [ordinal, count] : pieces) {
    copy_streams& streams = of_devices[ordinal];
    while (streams.all.size() < std::min(count, most_streams))
      streams.all.emplace_back(device_ref{ordinal});
  }
  try {
    for (const parallel_copy& each : copies) {
      copy_streams& streams = of_devices.at(each.device.ordinal());
      for (std::size_t done = 0; done < each.bytes; done += piece_bytes) {
        const stream& in = streams.all[streams.next++ % streams.all.size()];
        copy_async(in, static_cast<std::byte*>(each.to) + done,
                   static_cast<const std::byte*>(each.from) + done,
                   std::min(piece_bytes, each.bytes - done));
      }
    }
    for (const auto& [ordinal, streams] : of_devices)
      for (const stream& each : streams.all) each.synchronize();
  } catch (...) {
    may_be_running = !drain(of_devices);
    throw;
  }
}

}  // namespace hipvmm::detail
