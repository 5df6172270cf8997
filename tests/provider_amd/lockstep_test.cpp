// SPDX-License-Identifier: MIT
// Random sequences of virtual memory calls, made by AMD's runtime on the stand-in for ROCr and by
// the model that the host provider is compared with: under the profile of the runtime's release
// both give the same codes, rights and bytes.
//   HIPVMM_TEST_SEED         repeats a run
//   HIPVMM_MODEL_OPERATIONS  how many calls instead of 100,000
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <numeric>
#include <string>

#include "providers/host/tests/model/sequence/sequence.hpp"
#include "providers/host/tests/model/stream/stream_sequence.hpp"
#include "stand_in.hpp"
#include "support/random_seed.hpp"

using namespace hipvmm::test;
using namespace hipvmm::test::model;

namespace {

// The runtime gives ROCr's granularity, and memory is short nowhere.
constexpr machine large_machine{4096, std::size_t{64} << 30U, std::size_t{64} << 40U};

/// The rules of the release, with the stand-in for answers of ROCr.
model_rules rules_on_stand_in() {
  model_rules rules = rules_of(linked_profile());
  rules.memory_stays_until_addresses_go = false;
  rules.unmap_of_several_keeps_reservation = false;
  return rules;
}

template <class Counts>
std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::string text_of(const exclusion_counts& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (static_cast<exclusion>(i) != exclusion::none)
      text.append("\n  ")
          .append(std::to_string(counts[i]))
          .append(": ")
          .append(text_of(static_cast<exclusion>(i)));
  return text;
}

std::size_t calls_asked_for(std::size_t otherwise) {
  const char* const asked = std::getenv("HIPVMM_MODEL_OPERATIONS");
  return asked != nullptr ? std::strtoul(asked, nullptr, 10) : otherwise;
}

void set_machine() {
  for (const std::string& each : stand_in_settings(device_count, "0-1,1-2")) {
    const std::size_t split = each.find('=');
    ::setenv(each.substr(0, split).c_str(), each.c_str() + split + 1, 1);
  }
}

}  // namespace

TEST_CASE("lockstep: streams, events, pools and captures on random sequences") {
  if (!is_on_stand_in()) {
    MESSAGE("skipped: only on a stand-in for ROCr can streams be held");
    return;
  }
  set_machine();
  std::mt19937 seeds = seeded_generator();
  const std::size_t asked_for = calls_asked_for(100'000);
  std::size_t effects = 0;
  std::size_t refusals = 0;
  while (effects + refusals < asked_for) {
    const stream_outcome ended =
        run_stream_sequence(linked_profile(), static_cast<std::uint32_t>(seeds()), 4'000);
    effects += ended.effects;
    refusals += ended.refusals;
    if (!ended.difference.empty())
      FAIL("after ", effects + refusals, " calls:\n", ended.difference);
  }
  MESSAGE(effects, " calls had an effect and ", refusals, " were refused");
  CHECK(effects > asked_for / 10);
  CHECK(refusals > asked_for / 10);
}

TEST_CASE("lockstep: AMD's runtime and the model of its release agree on random sequences") {
  if (!is_on_stand_in()) {
    MESSAGE("skipped: only a stand-in for ROCr can be asked what faults on a GPU");
    return;
  }
  set_machine();
  ::setenv("HIPVMM_ROCR_MEMORY", "64GiB", 1);
  std::mt19937 seeds = seeded_generator();
  const model_rules rules = rules_on_stand_in();
  const sequence_runner runner{large_machine, rules, provider_use::runtime};
  const std::size_t asked_for = calls_asked_for(100'000);
  std::size_t effects = 0;
  std::size_t refusals = 0;
  exclusion_counts left_out = {};
  while (effects + refusals < asked_for) {
    const outcome ended = runner.generated(static_cast<std::uint32_t>(seeds()), 4'000);
    effects += sum(ended.effects);
    refusals += sum(ended.refusals);
    for (std::size_t i = 0; i < exclusions; ++i) left_out[i] += ended.left_out[i];
    if (ended.difference.empty()) continue;
    const outcome least = runner.shrunk(ended);
    const std::size_t made = effects + refusals;
    FAIL("after ", made, " calls:\n", text_of(ended, 12), "the least that differs:\n",
         text_of(least, 60));
  }
  const std::size_t made = effects + refusals;
  MESSAGE(made, " calls, of which ", effects, " had an effect and ", refusals,
          " were refused. Not made:", text_of(left_out));
  CHECK(effects > asked_for / 10);
  CHECK(refusals > asked_for / 10);
}
