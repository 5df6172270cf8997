// SPDX-License-Identifier: MIT
// Publications of which either side is killed: at each step of the protocol, and at any moment.
#include <hipvmm/capability/capability.hpp>
#include "ipc/ipc_test.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* step_variable = "HIPVMM_TEST_STEP";
constexpr const char* moment_variable = "HIPVMM_TEST_MOMENT";

/// When a child is killed.
struct kill_plan {
  long step = 0;                        ///< of the protocol, from 1 on; 0: at none
  std::chrono::microseconds moment{0};  ///< after it began, if `step` is 0
};

std::atomic<long> killing_step{0};

int kill_at_step(const char*) {
  if (killing_step.fetch_sub(1) == 1) std::raise(SIGKILL);
  return 0;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

/// In a child: it is killed as planned.
void start_killing() {
  killing_step = std::stol(variable(step_variable));
  if (killing_step != 0) {
    detail::protocol_step_hook = kill_at_step;
    return;
  }
  const long microseconds = std::stol(variable(moment_variable));
  sigevent kill{};
  kill.sigev_notify = SIGEV_SIGNAL;
  kill.sigev_signo = SIGKILL;
  timer_t timer{};
  REQUIRE(::timer_create(CLOCK_MONOTONIC, &kill, &timer) == 0);
  itimerspec when{};
  when.it_value.tv_sec = microseconds / 1'000'000;
  when.it_value.tv_nsec = microseconds % 1'000'000 * 1000;
  REQUIRE(::timer_settime(timer, 0, &when, nullptr) == 0);
}

HIPVMM_CHILD("imports until it is killed") {
  const stream stream;
  start_killing();
  attached_region seen{variable(path_variable)};
  seen.wait_for(3 * granule(), 10s, stream);
  seen.refresh(stream);
}

HIPVMM_CHILD("publishes until it is killed") {
  const stream stream;
  region owned{first_device, 8 * granule(), shareable_chunks()};
  owned.commit(0, granule());
  start_killing();
  publication published{variable(path_variable), first_device, 8 * granule()};
  published.announce(owned, granule(), stream);
  for (int ms = 0; ms < 1000 && published.importers() == 0; ++ms) std::this_thread::sleep_for(1ms);
  owned.commit(granule(), granule());
  published.announce(owned, 2 * granule(), stream);
  stream.synchronize();
  for (int ms = 0; ms < 1000 && published.importers() != 0; ++ms) std::this_thread::sleep_for(1ms);
}

// The kills asked for besides one at each step.
long kills_asked_for() {
  const char* const asked = std::getenv("HIPVMM_TEST_KILLS");
  return asked == nullptr ? 20 : std::stol(asked);
}

/// Runs a child by each plan, by turns at a random step and at a random moment when each step had
/// its turn. `run` does so while it goes on with its own side, and checks the child's leftovers.
void kill_children(const std::function<child_result(const kill_plan&)>& run) {
  long kills = 0;
  const auto is_killed = [&](const kill_plan& plan) {
    CAPTURE(plan.step);
    CAPTURE(plan.moment.count());
    const child_result child = run(plan);
    const bool killed = child.status == 128 + SIGKILL;
    kills += killed ? 1 : 0;
    CHECK_MESSAGE((killed || passed(child)), child.output);
    return killed;
  };
  long steps = 0;
  while (is_killed({steps + 1})) {
    ++steps;
    REQUIRE(steps < 500);
  }
  REQUIRE(steps > 5);
  std::mt19937 chosen = seeded_generator();
  const long wanted = kills + kills_asked_for();
  while (kills < wanted) {
    is_killed({1 + static_cast<long>(below(chosen, static_cast<std::size_t>(steps)))});
    // From 50 to 25,600 microseconds, short ones as often as long ones.
    const std::size_t scale = std::size_t{50} << below(chosen, 9);
    is_killed({0, std::chrono::microseconds{scale + below(chosen, scale)}});
  }
  MESSAGE("killed " << kills << " processes");
}

child_result run_to_kill(const char* name, const std::string& path, const kill_plan& plan) {
  return run_child(name,
                   {std::string{path_variable} + "=" + path,
                    std::string{step_variable} + "=" + std::to_string(plan.step),
                    std::string{moment_variable} + "=" + std::to_string(plan.moment.count())});
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(published_region, "publication: importers killed at any moment leave nothing") {
  owned.commit(2 * granule(), granule());
  announce(3);
  attached_region honest{path};
  REQUIRE(comes_true([&] { return published.importers() == 1; }));
  const std::size_t before = steady_descriptors();
  const std::size_t mapped = mappings_of("memfd");
  // Else each chunk that goes leaves a descriptor until the addresses are freed.
  const bool returns_memory = capability_of(first_device).has(trait::returns_memory);
  kill_children([&](const kill_plan& plan) {
    auto child = std::async(std::launch::async,
                            [&] { return run_to_kill("imports until it is killed", path, plan); });
    // The last chunk goes and comes while the child looks.
    while (child.wait_for(1ms) != std::future_status::ready && returns_memory) {
      owned.decommit(2 * granule(), granule());
      announce(2);
      CHECK(honest.refresh(stream) <= 2 * granule());
      owned.commit(2 * granule(), granule());
      announce(3);
      CHECK(honest.refresh(stream) == 3 * granule());
    }
    CHECK(comes_true([&] { return published.importers() == 1; }));
    CHECK(published.wait_until_withdrawn(20s));
    CHECK(descriptors_become(before));
    CHECK(mappings_of("memfd") == mapped);
    return child.get();
  });
  owned.commit(3 * granule(), granule());
  announce(4);
  CHECK(honest.wait_for(4 * granule(), 20s, stream));
}

TEST_CASE("attached_region: owners killed at any moment leave a path that is taken over") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const stream stream;
  const std::size_t before = steady_descriptors();
  const std::size_t mapped = mappings_of("memfd");
  kill_children([&](const kill_plan& plan) {
    auto child = std::async(std::launch::async, [&] {
      return run_to_kill("publishes until it is killed", path, plan);
    });
    // Attaches whenever it can, until the owner has ended.
    std::optional<attached_region> seen;
    while (child.wait_for(0s) != std::future_status::ready) {
      try {
        if (!seen) seen.emplace(path, attach_within(500ms));
        if (seen->wait_for(2 * granule(), 1ms, stream)) break;
      } catch (const ipc_error&) {
        seen.reset();
      }
    }
    if (seen && seen->bytes() != 0) {
      CHECK_NOTHROW(static_cast<void>(read_bytes(stream, seen->data(), 16)));
    }
    seen.reset();
    child.wait();
    { const publication next{path, first_device, granule()}; }
    CHECK(std::filesystem::is_empty(folder.path()));
    CHECK(descriptors_become(before));
    CHECK(mappings_of("memfd") == mapped);
    return child.get();
  });
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
