// SPDX-License-Identifier: MIT
// Measures the cost of push_back for each element, growth included, beside the copy of the element
// that nobody can avoid.
//
// Above 1.5 times the copies alone, the checks around them or the growth steps have become dear.
#include <algorithm>
#include <array>

#include <hipvmm/container/growable_device_vector.hpp>
#include "growth_scenarios.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

// Neither one byte repeated nor four, so that push_back is a copy as the baseline's is.
struct element {
  std::array<unsigned char, 256> bytes;
};

element numbered_bytes() {
  element value = {};
  for (std::size_t i = 0; i < value.bytes.size(); ++i)
    value.bytes[i] = static_cast<unsigned char>(i);
  return value;
}

double append_by_vector(hipvmm::device_ref device, const element& value, std::size_t count) {
  const hipvmm::stream stream{device};
  hipvmm::growable_device_vector<element> vector{device};
  const stopwatch watch;
  for (std::size_t i = 0; i < count; ++i) vector.push_back(value, stream);
  stream.synchronize();
  return watch.seconds();
}

double grow_one_by_one(hipvmm::device_ref device, std::size_t count) {
  hipvmm::growable_device_vector<element> vector{device};
  const stopwatch watch;
  for (std::size_t i = 0; i < count; ++i) vector.resize_uninitialized(i + 1);
  return watch.seconds();
}

}  // namespace

std::vector<measurement> measure_push_back(const settings& chosen) {
  const element value = numbered_bytes();
  const hipvmm::device_ref device = chosen.device;
  const std::size_t count = std::min(chosen.max_bytes, 64 * hipvmm::MiB) / sizeof(element);
  const auto by_hand = [&](std::size_t first_bytes) {
    return append_one_by_one(&value, sizeof value, count, first_bytes);
  };
  using list = std::vector<double>;
  measurement row;
  row.scenario = scenario::push_back;
  row.steps = count;
  row.bytes = count * sizeof(element);
  return measure(
      row,
      {{name::no_growth, chosen.runs, 1,
        [&](memory_probe*) { return list{by_hand(count * sizeof(element))}; }},
       {name::vector, chosen.runs, 1,
        [&](memory_probe*) { return list{append_by_vector(device, value, count)}; }},
       {name::growth_alone, chosen.runs, 1,
        [&](memory_probe*) { return list{grow_one_by_one(device, count)}; }},
       {name::copy, chosen.runs, 1, [&](memory_probe*) { return list{by_hand(2 * hipvmm::MiB)}; }}},
      chosen);
}

}  // namespace bench
