// SPDX-License-Identifier: MIT
// Measures the cost of growth if a peer device may use every byte of it.
//
// Above 1.10 times the raw calls that open each chunk to both devices at once, granting would have
// to be one call for all devices instead of one for each.
#include "growth_scenarios.hpp"
#include "library_growth.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

std::optional<hipvmm::device_ref> peer_of(hipvmm::device_ref device) {
  for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal) {
    const hipvmm::device_ref other{ordinal};
    if (other != device && other.can_access_peer(device)) return other;
  }
  return std::nullopt;
}

}  // namespace

std::string scenario::peers(const settings& chosen) { return steps(chosen) + " with a peer"; }

std::vector<measurement> measure_peers(const settings& chosen) {
  const hipvmm::device_ref device = chosen.device;
  const std::vector<std::size_t> sizes = equal_steps(chosen.step_bytes, chosen.steps_bytes);
  const std::size_t max_bytes = sizes.back();
  const std::size_t steps = sizes.size();
  const auto peer = peer_of(device);
  std::vector<growth_method> methods = {
      {name::raw_calls,
       [=](const peak_hook&) { return make_raw_calls(device, max_bytes, steps, peer); }},
      {name::region, [=](const peak_hook&) { return make_region(device, max_bytes, peer); }},
      {name::exact_vector,
       [=](const peak_hook&) { return make_vector(device, exact_steps(), peer); }},
      {name::vector, [=](const peak_hook&) { return make_vector(device, {}, peer); }}};
  if (!peer)
    for (growth_method& each : methods)
      each.unavailable = "no second device reaches device " + std::to_string(device.ordinal());
  return measure_growth(scenario::peers(chosen), sizes, methods, chosen);
}

}  // namespace bench
