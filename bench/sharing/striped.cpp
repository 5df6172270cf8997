// SPDX-License-Identifier: MIT
// Do N devices read a range that is striped over all N times as fast as one reads its own memory?
//
// Below 0.9 N times, stripes would cost more than the address range that they save programs from
// cutting up.
#include <algorithm>
#include <functional>
#include <memory>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/growth/kernels.hpp"
#include "sharing_scenarios.hpp"

namespace bench {
namespace {

/// Reads all chunks of `memory` `passes` times, each by its own device. Returns the seconds from
/// the first launch until all devices are done.
double read_where_it_is(const hipvmm::region& memory, const std::vector<hipvmm::stream>& streams) {
  const std::vector<hipvmm::chunk_view> chunks = memory.chunks();
  const stopwatch watch;
  for (int i = 0; i < passes; ++i) {
    for (const hipvmm::stream& each : streams) {
      const hipvmm::scoped_device scope{each.device()};
      for (const hipvmm::chunk_view& chunk : chunks) {
        if (chunk.device != each.device()) continue;
        if constexpr (kernels_built) launch_read(chunk.address, chunk.bytes, each.get());
      }
    }
  }
  for (const hipvmm::stream& each : streams) each.synchronize();
  return watch.seconds();
}

method reading(const char* called, const settings& chosen, const std::string& unavailable,
               const std::vector<hipvmm::device_ref>& devices) {
  return {called, chosen.runs, chosen.repeats,
          [=, &chosen](memory_probe*) {
            hipvmm::region_options options;
            if (devices.size() > 1)
              options.placement = hipvmm::chunk_placement::striped(devices, chosen.step_bytes);
            const std::size_t bytes = hipvmm::align_down(chosen.steps_bytes, chosen.step_bytes);
            hipvmm::region memory{chosen.device, bytes, options};
            for (std::size_t at = 0; at < bytes; at += chosen.step_bytes)
              memory.commit(at, chosen.step_bytes);
            std::vector<hipvmm::stream> streams;
            for (const hipvmm::device_ref device : devices) streams.emplace_back(device);
            hipvmm::fill_async(streams.front(), memory.base(), 1, bytes);
            streams.front().synchronize();
            static_cast<void>(read_where_it_is(memory, streams));
            return std::vector<double>{read_where_it_is(memory, streams)};
          },
          unavailable};
}

}  // namespace

std::vector<measurement> measure_striped(const settings& chosen, const peers& others) {
  const std::string unavailable = others.empty()  ? no_peer(chosen.device)
                                  : kernels_built ? ""
                                                  : no_kernels;
  std::vector<hipvmm::device_ref> all = {chosen.device};
  all.insert(all.end(), others.begin(), others.end());
  const std::vector<method> methods = {
      reading(name::one_device, chosen, unavailable, {chosen.device}),
      reading(name::striped, chosen, unavailable, all)};
  measurement row;
  row.scenario = scenario::striped;
  row.steps = passes;
  row.bytes = hipvmm::align_down(chosen.steps_bytes, chosen.step_bytes);
  std::vector<measurement> rows = measure(row, methods, chosen);
  for (measurement& each : rows) {
    if (each.seconds.empty()) continue;
    each.gigabytes_per_second =
        static_cast<double>(each.bytes) * passes / 1e9 / summarize(each.seconds).median;
  }
  return rows;
}

}  // namespace bench
