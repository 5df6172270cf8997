// SPDX-License-Identifier: MIT
// Measures the cost of giving peers the right to many chunks, and of taking it away.
//
// No bar: it is a part of growth, and HIP's calls decide it. The raw calls are one of HIP's for
// each chunk; a region that took longer would have to join them better.
#include <algorithm>
#include <functional>

#include <hipvmm/region/region.hpp>
#include "raw_memory.hpp"
#include "sharing_scenarios.hpp"

namespace bench {
namespace {

/// Times `change` by `memory`, made anew for each sample.
template <typename Make, typename Before, typename Change>
method timed(const char* called, const settings& chosen, std::string unavailable, const Make& make,
             Before before, Change change) {
  return {called, chosen.runs, chosen.repeats,
          [=](memory_probe*) {
            const auto memory = make();
            before(*memory);
            const stopwatch watch;
            change(*memory);
            return std::vector<double>{watch.seconds()};
          },
          std::move(unavailable)};
}

}  // namespace

peers peers_of(hipvmm::device_ref device, std::size_t most) {
  peers found;
  for (int ordinal = 0; ordinal < hipvmm::device_count() && found.size() < most; ++ordinal) {
    const hipvmm::device_ref other{ordinal};
    if (other != device && other.can_access_peer(device)) found.push_back(other);
  }
  return found;
}

std::string no_peer(hipvmm::device_ref device) {
  return "no second device reaches device " + std::to_string(device.ordinal());
}

std::vector<measurement> measure_rights(const settings& chosen, const peers& others) {
  const std::string unavailable = others.empty() ? no_peer(chosen.device) : "";
  const std::vector<std::size_t> sizes = equal_steps(chosen.step_bytes, chosen.steps_bytes);
  const auto make_raw = [=] {
    auto made = std::make_unique<raw_memory>(chosen.device, sizes.back(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) made->add(chosen.step_bytes);
    return made;
  };
  const auto make_region = [=] {
    auto made = std::make_unique<hipvmm::region>(chosen.device, sizes.back());
    for (const std::size_t end : sizes) made->commit(end - chosen.step_bytes, chosen.step_bytes);
    return made;
  };
  const auto nothing = [](const auto&) {};
  const auto grant_raw = [=](raw_memory& memory) {
    memory.set_access(others, hipMemAccessFlagsProtReadWrite);
  };
  const auto grant_region = [=](hipvmm::region& memory) {
    std::vector<hipvmm::access_desc> rights;
    for (const hipvmm::device_ref peer : others)
      rights.push_back({peer, hipvmm::access_right::read_write});
    memory.set_access(hipvmm::access_list{std::move(rights)});
  };
  measurement row;
  // So that a step is a chunk, and one device.
  row.steps = sizes.size() * std::max<std::size_t>(1, others.size());
  row.bytes = sizes.back();
  row.scenario = scenario::grant;
  std::vector<measurement> rows =
      measure(row,
              {timed(name::raw_calls, chosen, unavailable, make_raw, nothing, grant_raw),
               timed(name::region, chosen, unavailable, make_region, nothing, grant_region)},
              chosen);
  row.scenario = scenario::revoke;
  for (measurement& each : measure(
           row,
           {timed(
                name::raw_calls, chosen, unavailable, make_raw, grant_raw,
                [=](raw_memory& memory) { memory.set_access(others, hipMemAccessFlagsProtNone); }),
            timed(name::region, chosen, unavailable, make_region, grant_region,
                  [=](hipvmm::region& memory) { memory.set_access(hipvmm::access_list{}); })},
           chosen))
    rows.push_back(std::move(each));
  return rows;
}

}  // namespace bench
