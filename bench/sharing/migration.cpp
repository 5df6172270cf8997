// SPDX-License-Identifier: MIT
// Measures the cost of a range that moves to another device and stays at its addresses.
//
// No bar: the copy between the devices decides. The ratio shows the library's part beside HIP's
// calls.
#include <hip/hip_runtime_api.h>

#include <memory>

#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "raw_memory.hpp"
#include "sharing_scenarios.hpp"

namespace bench {
namespace {

void* start_of(const raw_memory& memory) { return memory.at(0); }
void* start_of(const hipvmm::region& memory) { return memory.base(); }

/// Times `move` of memory that `make` makes anew for each sample, on one device with access for
/// both, written before.
template <typename Make, typename Move>
method moving(const char* called, const settings& chosen, const std::string& unavailable,
              const Make& make, Move move) {
  return {called, chosen.runs, chosen.repeats,
          [=](memory_probe*) {
            const hipvmm::scoped_device scope{chosen.device};
            const auto memory = make();
            const hipvmm::stream stream{chosen.device};
            hipvmm::fill_async(stream, start_of(*memory), 1, chosen.step_bytes);
            stream.synchronize();
            const stopwatch watch;
            move(*memory, stream);
            return std::vector<double>{watch.seconds()};
          },
          unavailable};
}

/// From the device of `chosen` to `peer`.
std::vector<measurement> measure_pair(const char* scenario, const settings& chosen,
                                      hipvmm::device_ref peer, const std::string& unavailable) {
  const std::vector<std::size_t> sizes = equal_steps(chosen.step_bytes, chosen.steps_bytes);
  const std::size_t bytes = sizes.back();
  const auto make_raw = [=] {
    auto made = std::make_unique<raw_memory>(chosen.device, bytes, sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) made->add(chosen.step_bytes);
    made->set_access({peer}, hipMemAccessFlagsProtReadWrite);
    return made;
  };
  const auto make_region = [=] {
    auto made = std::make_unique<hipvmm::region>(chosen.device, bytes);
    made->grant(peer);
    for (const std::size_t end : sizes) made->commit(end - chosen.step_bytes, chosen.step_bytes);
    return made;
  };
  measurement row;
  row.scenario = scenario;
  row.steps = 1;
  row.bytes = bytes;
  std::vector<measurement> rows = measure(
      row,
      {moving(name::raw_calls, chosen, unavailable, make_raw,
              [=](raw_memory& memory, hipvmm::stream_ref stream) { memory.move_to(peer, stream); }),
       moving(name::region, chosen, unavailable, make_region,
              [=](hipvmm::region& memory, hipvmm::stream_ref stream) {
                memory.move_range(0, bytes, peer, stream);
              })},
      chosen);
  for (measurement& each : rows) {
    if (each.seconds.empty()) continue;
    each.gigabytes_per_second = static_cast<double>(bytes) / 1e9 / summarize(each.seconds).median;
  }
  return rows;
}

}  // namespace

std::vector<measurement> measure_migration(const settings& chosen, const peers& others) {
  if (others.empty())
    return measure_pair(scenario::migration, chosen, chosen.device, no_peer(chosen.device));
  std::vector<hipvmm::device_ref> all = {chosen.device};
  all.insert(all.end(), others.begin(), others.end());
  std::vector<measurement> rows;
  for (const hipvmm::device_ref from : all) {
    for (const hipvmm::device_ref to : all) {
      if (from == to) continue;
      settings of_pair = chosen;
      of_pair.device = from;
      // The first pair has the name by which its bar finds it.
      const std::string called = rows.empty()
                                     ? scenario::migration
                                     : "move from device " + std::to_string(from.ordinal()) +
                                           " to " + std::to_string(to.ordinal());
      const std::string unavailable = to.can_access_peer(from) ? "" : no_peer(from);
      for (measurement& each : measure_pair(called.c_str(), of_pair, to, unavailable))
        rows.push_back(std::move(each));
    }
  }
  return rows;
}

}  // namespace bench
