// SPDX-License-Identifier: MIT
// Measures the cost of growing a buffer in place, by doubling and by equal steps: beside the HIP
// calls that no library can avoid, and beside allocating anew, copying and freeing.
//
// A region or vector above 1.10 times the raw calls for the same chunks means that the layers over
// HIP have to become thinner; a single copy, or a peak above the final size, that growth breaks its
// promise. A vector that grows as one did a moment ago, nothing being set, below 20 times as fast
// as copying means that chunk_cache::shared() does not do its work.
#include <memory>

#include <hipvmm/core/bytes.hpp>
#include "growth_scenarios.hpp"
#include "library_growth.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

growth_method thrust_method() {
  growth_method result{name::thrust};
  result.copies = true;
  result.writes = true;
  if constexpr (kernels_built) {
    result.make = make_thrust_vector;
  } else {
    result.unavailable = no_kernels;
  }
  return result;
}

growth_method ahead_method(const char* called, bool writes, const settings& chosen) {
  const hipvmm::device_ref device = chosen.device;
  growth_method result{called};
  result.writes = writes;
  result.make = [device, options = ahead_options(chosen.step_bytes)](const peak_hook&) {
    return make_vector(device, options);
  };
  return result;
}

void add_cached_methods(std::vector<growth_method>& methods, hipvmm::device_ref device,
                        const std::vector<std::size_t>& sizes) {
  methods.push_back(
      {name::cached_region, [=](const peak_hook&) { return make_cached_region(device, sizes); }});
  methods.push_back(
      {name::cached_vector, [=](const peak_hook&) { return make_cached_vector(device, sizes); }});
}

}  // namespace

std::string scenario::steps(const settings& chosen) {
  return std::string{"+"}.append(hipvmm::format_bytes(chosen.step_bytes));
}

std::vector<growth_method> common_methods(const settings& chosen,
                                          const std::vector<std::size_t>& sizes) {
  const hipvmm::device_ref device = chosen.device;
  const std::size_t max_bytes = sizes.back();
  const std::size_t steps = sizes.size();
  return {
      {name::raw_calls, [=](const peak_hook&) { return make_raw_calls(device, max_bytes, steps); }},
      {name::region, [=](const peak_hook&) { return make_region(device, max_bytes); }},
      {name::exact_vector, [=](const peak_hook&) { return make_vector(device, exact_steps()); }},
      {name::vector, [=](const peak_hook&) { return make_vector(device); }},
      {name::copy, make_copy, true, true},
      {name::async_copy, make_async_copy, true, true},
      thrust_method()};
}

std::vector<measurement> measure_doubling(const settings& chosen) {
  const std::vector<std::size_t> sizes =
      doubling(hipvmm::align_up(2 * hipvmm::MiB, chosen.unit), chosen.max_bytes);
  std::vector<growth_method> methods = common_methods(chosen, sizes);
  add_cached_methods(methods, chosen.device, sizes);
  methods.push_back({name::vector_again, [device = chosen.device, sizes](const peak_hook&) {
                       return make_vector_again(device, sizes);
                     }});
  return measure_growth(scenario::doubling, sizes, methods, chosen);
}

std::vector<measurement> measure_steps(const settings& chosen) {
  const std::vector<std::size_t> sizes = equal_steps(chosen.step_bytes, chosen.steps_bytes);
  std::vector<growth_method> methods = common_methods(chosen, sizes);
  add_cached_methods(methods, chosen.device, sizes);
  methods.push_back(ahead_method(name::ahead, true, chosen));
  methods.push_back(ahead_method(name::ahead_no_pause, false, chosen));
  return measure_growth(scenario::steps(chosen), sizes, methods, chosen);
}

}  // namespace bench
