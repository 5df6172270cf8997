// SPDX-License-Identifier: MIT
// Random sequences of virtual memory calls, made by the provider and by a model of its rules that
// was written from the documents alone.
//   HIPVMM_TEST_SEED         repeats a run
//   HIPVMM_MODEL_OPERATIONS  how many calls instead of 120,000, or 20,000 under a profile
//   HIPVMM_HOST_PROFILE      the runtime whose rules are compared; strict unless said
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <hipvmm/provider/host_control.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "providers/host/tests/model/lockstep/lockstep.hpp"
#include "providers/host/tests/model/sequence/operation_generator.hpp"
#include "providers/host/tests/model/sequence/sequence.hpp"
#include "providers/host/tests/model/stream/stream_sequence.hpp"
#include "support/random_seed.hpp"

using namespace hipvmm::test::model;

namespace {

const model_rules& chosen_rules() {
  const char* const profile = std::getenv("HIPVMM_HOST_PROFILE");
  return rules_of(profile == nullptr ? "strict" : profile);
}

/// Small, so that sequences reach budgets and bytes are cheap; with fewer addresses than sequences
/// request.
machine chosen_machine() {
  const std::size_t granule = chosen_rules().minimum_granularity.value_or(4096);
  return {granule, 64 * granule, 56 * granule};
}

void set(const char* variable, const std::string& value) { ::setenv(variable, value.c_str(), 1); }

/// The environment that the model speaks of; read by the provider at its first call.
void set_environment() {
  const machine of = chosen_machine();
  set("HIPVMM_HOST_DEVICES", std::to_string(device_count));
  set("HIPVMM_HOST_PEERS", "0-1,1-2");
  set("HIPVMM_HOST_MEMORY", std::to_string(of.device_bytes));
  set("HIPVMM_HOST_ADDRESS_SPACE", std::to_string(of.address_space));
  if (!chosen_rules().minimum_granularity)
    set("HIPVMM_HOST_GRANULARITY", std::to_string(of.granularity));
}

std::size_t sum(const kind_counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t operations_asked_for() {
  const char* const asked = std::getenv("HIPVMM_MODEL_OPERATIONS");
  if (asked != nullptr) return std::strtoul(asked, nullptr, 10);
#ifdef __SANITIZE_THREAD__
  return 20'000;  // of one thread, each several times as slow there
#else
  // CI repeats this program under every profile.
  return chosen_rules().name == "strict" ? 120'000 : 20'000;
#endif
}

/// A kind of call that is always refused, or never, tests little.
bool is_one_sided(const kind_counts& effects, const kind_counts& refusals, std::size_t i) {
  return static_cast<kind>(i) != kind::close_descriptor && (effects[i] == 0 || refusals[i] == 0);
}

bool any_is_one_sided(const kind_counts& effects, const kind_counts& refusals) {
  for (std::size_t i = 0; i < kinds; ++i) {
    if (is_one_sided(effects, refusals, i)) return true;
  }
  return false;
}

/// The difference between the provider and the model of one of several threads.
std::optional<std::string> run_on_own_addresses(std::uint32_t seed, std::size_t length) try {
  lockstep both{chosen_machine(), chosen_rules(), provider_use::shared};
  operation_generator generator{seed, reach::own_objects};
  std::optional<std::string> difference;
  for (std::size_t step = 0; step < length && !difference; ++step) {
    const operation each = generator.next(both);
    difference = both.step(each);
    if (!difference && step % 50 == 0) difference = both.compare_all();
    if (difference) difference->append(" after ").append(text_of(each));
  }
  if (!difference) difference = both.give_back();
  if (!difference && chosen_rules().has_virtual_memory && sum(both.effects()) < length / 5)
    difference = "little had an effect";
  return difference;
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace

// First in this file, and the only user of the provider before the threads below: a sanitizer that
// watches threads lets a process fork only while it has one.
TEST_CASE("model: the provider and the model agree on random sequences of calls") {
  std::mt19937 seeds = hipvmm::test::seeded_generator();
  const sequence_runner runner{chosen_machine(), chosen_rules()};
  constexpr std::size_t length = 2'000;
  std::size_t made = 0;
  kind_counts effects = {};
  kind_counts refusals = {};
  const std::size_t asked_for = operations_asked_for();
  // A profile may leave a kind so few ways to be refused that 20,000 calls at times have none.
  const std::size_t most = chosen_rules().has_virtual_memory ? 20 * asked_for : asked_for;
  while (made < asked_for || (made < most && any_is_one_sided(effects, refusals))) {
    const auto seed = static_cast<std::uint32_t>(seeds());
    const outcome ended = runner.generated(seed, length);
    // Not those that were left out.
    made += sum(ended.effects) + sum(ended.refusals);
    for (std::size_t i = 0; i < kinds; ++i) {
      effects[i] += ended.effects[i];
      refusals[i] += ended.refusals[i];
    }
    if (ended.difference.empty()) continue;
    const outcome least = runner.shrunk(ended);
    FAIL("after ", made, " calls:\n", text_of(ended, 12), "the least that differs:\n",
         text_of(least, 60));
  }
  MESSAGE(made, " calls, of which ", sum(effects), " had an effect and ", sum(refusals),
          " were refused");
  if (!chosen_rules().has_virtual_memory) return;
  for (std::size_t i = 0; i < kinds; ++i) {
    operation example;
    example.what = static_cast<kind>(i);
    CAPTURE(text_of(example));
    CHECK_FALSE(is_one_sided(effects, refusals, i));
  }
  CHECK(sum(effects) > made / 4);
}

TEST_CASE("model: streams, events, pools and captures on random sequences of calls") {
  std::mt19937 seeds = hipvmm::test::seeded_generator();
  // Pools of some releases take 32 MiB at a time.
  set("HIPVMM_HOST_MEMORY", "268435456");
  const std::size_t asked_for = operations_asked_for() / 4;
  std::size_t effects = 0;
  std::size_t refusals = 0;
  while (effects + refusals < asked_for) {
    const stream_outcome ended =
        run_stream_sequence(chosen_rules().name, static_cast<std::uint32_t>(seeds()), 2'000);
    effects += ended.effects;
    refusals += ended.refusals;
    if (!ended.difference.empty())
      FAIL("after ", effects + refusals, " calls:\n", ended.difference);
  }
  set_environment();
  CHECK(effects > asked_for / 10);
  CHECK(refusals > asked_for / 10);
}

TEST_CASE("model: threads on addresses of their own see what the model says, over one budget") {
  std::mt19937 seeds = hipvmm::test::seeded_generator();
  constexpr std::size_t length = 1'500;
  std::array<std::optional<std::string>, 4> differences;
  std::array<std::thread, 4> threads;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i] =
        std::thread{[&difference = differences[i], seed = static_cast<std::uint32_t>(seeds())] {
          difference = run_on_own_addresses(seed, length);
        }};
  }
  for (std::thread& each : threads) each.join();
  for (const std::optional<std::string>& each : differences) CHECK(each.value_or("") == "");
  hipvmm_host_counters left{};
  hipvmm_host_get_counters(&left);
  CHECK(left.handles + left.reservations + left.mappings + left.allocations + left.descriptors ==
        0);
  for (int device = 0; device < device_count; ++device)
    CHECK(hipvmm_host_device_bytes(device) == 0);
}

int main(int argc, char** argv) {
  try {
    set_environment();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test_provider_model: %s\n", error.what());
    return 1;
  }
  const int result = doctest::Context{argc, argv}.run();
  // Under HIPVMM_HOST_CHECK=1: random calls are out of order, and no report of them is a failure.
  hipvmm_host_clear_order_reports();
  return result;
}
