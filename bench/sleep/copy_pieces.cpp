// SPDX-License-Identifier: MIT
// Which pieces in how many streams carry contents at the speed of the link?
//
// Below 0.99 of the bandwidth of one copy, the pieces and streams of region/sleep/parallel_copies
// would have to be others. The copies need no chunks of their own: no call of virtual memory is in
// the time.
#include <algorithm>
#include <memory>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "halves.hpp"
#include "raw_sleep.hpp"
#include "sleep_scenarios.hpp"

namespace bench {
namespace {

struct cut {
  const char* called;
  std::size_t streams;
  std::size_t piece;
  bool makes_streams = false;  // each time, in the time
};

constexpr std::size_t whole = 0;
constexpr cut cuts[] = {
    {"one copy", 1, whole},
    {"1 stream, 32 MiB", 1, 32 * hipvmm::MiB},
    {"2 streams, 32 MiB", 2, 32 * hipvmm::MiB},
    {"4 streams, 32 MiB", 4, 32 * hipvmm::MiB},
    {"4 streams made each time, 32 MiB", 4, 32 * hipvmm::MiB, true},
    {"1 stream made each time, 32 MiB", 1, 32 * hipvmm::MiB, true},
    {"1 stream, 128 MiB", 1, 128 * hipvmm::MiB},
    {"2 streams, 128 MiB", 2, 128 * hipvmm::MiB},
    {"4 streams, 128 MiB", 4, 128 * hipvmm::MiB},
};

struct pieces {
  pieces(const settings& chosen, const sleep_shape& shape)
      : owner{chosen.device},
        bytes{std::min(shape.bytes, 4 * hipvmm::GiB)},
        host{bytes},
        device{owner, bytes, bytes} {
    for (std::size_t i = 0; i < 4; ++i) streams.emplace_back(owner);
    device.wake();
  }

  void copy(const cut& how, hipMemcpyKind kind) {
    std::vector<hipvmm::stream> made;
    for (std::size_t i = 0; how.makes_streams && i < how.streams; ++i) made.emplace_back(owner);
    const std::vector<hipvmm::stream>& in = how.makes_streams ? made : streams;
    const std::size_t piece = how.piece == whole ? bytes : how.piece;
    std::size_t next = 0;
    for (std::size_t done = 0; done < bytes; done += piece) {
      char* const there = static_cast<char*>(device.at(0)) + done;
      char* const here = static_cast<char*>(host.get()) + done;
      const bool wakes = kind == hipMemcpyHostToDevice;
      copy_async(wakes ? there : here, wakes ? here : there, std::min(piece, bytes - done), kind,
                 in[next++ % how.streams]);
    }
    for (const hipvmm::stream& each : in) each.synchronize();
  }

  hipvmm::device_ref owner;
  std::size_t bytes;
  raw_pinned host;
  raw_sleep device;
  std::vector<hipvmm::stream> streams;
};

}  // namespace

std::vector<measurement> measure_copy_pieces(const settings& chosen, const sleep_shape& shape) {
  pieces subject{chosen, shape};
  std::vector<method> methods;
  for (const cut& how : cuts) {
    methods.push_back({how.called, chosen.runs, chosen.repeats, [&](memory_probe*) {
                         return cycle([&] { subject.copy(how, hipMemcpyHostToDevice); },
                                      [&] { subject.copy(how, hipMemcpyDeviceToHost); });
                       }});
  }
  std::vector<measurement> rows =
      measure_halves("copies to the host", "copies to the device", subject.bytes, methods, chosen);
  add_bandwidth(rows);
  return rows;
}

}  // namespace bench
