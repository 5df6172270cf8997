// SPDX-License-Identifier: MIT
// Measures the cost of suspend() and resume() beside the calls that nobody can avoid.
//
// Above 1.1 times the raw calls, the steps around each call would have to be taken out: the books
// of the region, or the look for refused unmaps.
#include <memory>

#include "raw_sleep.hpp"
#include "sleepers.hpp"

namespace bench {
namespace {

struct raw_subject : raw_sleep {
  raw_subject(const settings& chosen, const sleep_shape& shape)
      : raw_sleep{chosen.device, shape.bytes, shape.chunk} {
    wake();
  }
};

}  // namespace

std::vector<measurement> measure_empty_sleep(const settings& chosen, const sleep_shape& shape) {
  const auto wake = [](auto& subject) { hipvmm::resume(subject.tag); };
  const auto sleep = [](auto& subject) {
    hipvmm::suspend(subject.tag, hipvmm::keep::nothing, subject.stream);
  };
  return measure_halves(
      scenario::suspend_nothing, scenario::resume_nothing, shape.bytes,
      {cycling<raw_subject>(
           name::raw_calls, chosen, shape, [](raw_subject& subject) { subject.wake(); },
           [](raw_subject& subject) { subject.sleep(); }),
       cycling<tagged_region>(name::region, chosen, shape, wake, sleep),
       cycling<tagged_pool>(name::pool, chosen, shape, wake, sleep)},
      chosen);
}

}  // namespace bench
