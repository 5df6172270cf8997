// SPDX-License-Identifier: MIT
// Budgets whose processes are killed, or meet failures of the system, at each step.
#include <sys/mman.h>

#include <new>  // IWYU pragma: keep

#include "ipc/budget/budget_test.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;
using detail::budget_layout;
using detail::budget_table;

constexpr const char* step_variable = "HIPVMM_TEST_STEP";

std::atomic<long> planned_step{0};
std::atomic<int> planned_error{0};

int kill_at_step(const char*) {
  if (planned_step.fetch_sub(1) == 1) std::raise(SIGKILL);
  return 0;
}

int fail_at_step(const char*) { return planned_step.fetch_sub(1) == 1 ? planned_error.load() : 0; }

/// A table that forked children have too.
struct forked_table {
  budget_layout* layout;

  explicit forked_table(std::uint64_t limit) {
    void* const mapped = ::mmap(nullptr, sizeof(budget_layout), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    layout = new (mapped) budget_layout;
    layout->header.limit = limit;
  }
  ~forked_table() { ::munmap(static_cast<void*>(layout), sizeof(budget_layout)); }
  forked_table& operator=(forked_table&&) = delete;
};

/// Does in a child a process's work with a table. Returns whether it was killed.
bool is_killed_at(long step, budget_layout& layout) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    planned_step = step;
    detail::protocol_step_hook = kill_at_step;
    budget_table table{layout};
    if (!table.join(detail::own_process_identity(), 1, "child")) ::_exit(1);
    if (!table.claim(40)) ::_exit(2);
    if (table.claim(100)) ::_exit(3);
    table.set_waiting(20, std::chrono::steady_clock::now() + 20s);
    const std::uint32_t number = table.request();
    table.answer(number);
    table.set_waiting(0, {});
    table.set_held(10);
    table.reap();
    table.leave();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

TEST_CASE("budget_table: a process that is killed at any step holds nothing") {
  long steps = 0;
  while (true) {
    forked_table table{100};
    budget_table survivor{*table.layout};
    REQUIRE(survivor.join(detail::own_process_identity(), 0, "survivor"));
    REQUIRE(survivor.claim(50));
    CAPTURE(steps);
    const bool is_killed = is_killed_at(steps + 1, *table.layout);
    CHECK(survivor.claim(50));
    CHECK(survivor.own_held() == 100);
    CHECK(survivor.held() == 100);
    CHECK(survivor.holders().size() == 1);
    survivor.set_held(0);
    CHECK(survivor.left() == 100);
    if (!is_killed) break;
    REQUIRE(++steps < 100);
  }
  CHECK(steps > 15);
}

TEST_CASE("budget_table: records of killed processes are used again") {
  forked_table table{100};
  // Each leaves one, which the next one tries first.
  for (long i = 0; i < 10; ++i) REQUIRE(is_killed_at(10, *table.layout));
  budget_table last{*table.layout};
  for (std::size_t i = 0; i < detail::max_budget_processes; ++i) {
    budget_table one{*table.layout};
    REQUIRE(one.join(detail::own_process_identity(), 0, "one"));
  }
  CHECK_FALSE(last.join(detail::own_process_identity(), 0, "last"));
}

TEST_CASE("budget_table: processes that are killed at any moment leave all to those that run") {
  forked_table table{100};
  std::mt19937 chosen = seeded_generator();
  std::vector<::pid_t> children;
  for (int i = 0; i < 12; ++i) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      budget_table one{*table.layout};
      if (!one.join(detail::own_process_identity(), i % 3, "child")) ::_exit(1);
      for (std::uint64_t bytes = 1;; bytes = bytes % 40 + 1) {
        if (one.claim(bytes)) continue;
        one.set_waiting(bytes, std::chrono::steady_clock::now() + 1ms);
        one.answer(one.request());
        one.set_waiting(0, {});
        one.set_held(0);
      }
    }
    children.push_back(child);
    // Some at a time, and each dies at another moment.
    if (i < 3) continue;
    std::this_thread::sleep_for(std::chrono::microseconds{below(chosen, 2000)});
    ::kill(children[static_cast<std::size_t>(i) - 3], SIGKILL);
  }
  for (const ::pid_t each : children) {
    ::kill(each, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(each, &status, 0) == each);
    CHECK(WIFSIGNALED(status));
  }
  budget_table survivor{*table.layout};
  REQUIRE(survivor.join(detail::own_process_identity(), 0, "survivor"));
  CHECK(survivor.claim(100));
  CHECK(survivor.held() == 100);
}

TEST_CASE("budget_file: processes that make and remove a budget at the same time meet in one") {
  const budget_folder folder;
  const detail::budget_key key{"race", {{'r'}}};
  std::vector<::pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      for (int round = 0; round < 20; ++round) {
        try {
          // One that this makes goes at once, as of a refused join.
          static_cast<void>(detail::budget_file::open(key, 100));
          const auto file = detail::budget_file::open(key, 100);
          budget_table table{file->shared()};
          if (!table.join(detail::own_process_identity(), 0, "child")) ::_exit(1);
          file->unlock();
          // Nobody removes it while this process takes part.
          const auto again = detail::budget_file::open(key, 0);
          if (!again || budget_table{again->shared()}.holders().empty()) ::_exit(2);
          table.leave();
        } catch (const std::exception&) {
          ::_exit(3);
        }
        try {
          memory_budget::remove(key.name, key.device);
        } catch (const ipc_error&) {  // another takes part
        }
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const ::pid_t each : children) {
    int status = 0;
    REQUIRE(::waitpid(each, &status, 0) == each);
    CHECK(status == 0);
  }
}

int interrupt_allocation(const char* step) {
  return step == std::string_view{"posix_fallocate"} && planned_step.fetch_sub(1) > 0 ? EINTR : 0;
}

TEST_CASE("budget_file: signals do not end the allocation of a new file") {
  const budget_folder folder;
  planned_step = 3;
  detail::protocol_step_hook = interrupt_allocation;
  CHECK_NOTHROW(static_cast<void>(detail::budget_file::open({"interrupted", {}}, 1)));
  detail::protocol_step_hook = nullptr;
  CHECK(planned_step == -1);
}

TEST_CASE("budget_file: a child of fork() keeps no lock that this process ends") {
  const budget_folder folder;
  const detail::budget_key key{"forked", {}};
  ::pid_t child = 0;
  {
    const auto locked = detail::budget_file::open(key, 1);
    child = ::fork();
    if (child == 0) ::_exit(::pause());
  }
  CHECK_NOTHROW(static_cast<void>(detail::budget_file::open(key, 0)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

HIPVMM_CHILD("takes part in a budget until it is killed") {
  planned_step = std::stol(std::getenv(step_variable));
  detail::protocol_step_hook = kill_at_step;
  {
    memory_budget budget{first_device, "killed", 4 * granule()};
    region memory{first_device, 4 * granule()};
    memory.commit(0, granule());
    budget.set_limit(3 * granule());
  }
  memory_budget::remove("killed", first_device.uuid());
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("memory_budget: a process that is killed at any step leaves a budget that works") {
  const std::size_t unit = budget_unit();
  const budget_folder folder;
  long kills = 0;
  // Every step until the file is joined, then some: each costs a process.
  for (long step = 1;; step += step < 16 ? 1 : 5) {
    CAPTURE(step);
    const child_result child = run_child("takes part in a budget until it is killed",
                                         {std::string{step_variable} + "=" + std::to_string(step)});
    const bool is_killed = child.status == 128 + SIGKILL;
    CHECK_MESSAGE((is_killed || passed(child)), child.output);
    for (const budget_report& each : memory_budget::all()) {
      CHECK(each.holders.empty());
      CHECK(each.bytes == 0);
    }
    {
      memory_budget budget{first_device, "killed", 4 * unit};
      budget.set_limit(unit);
      const physical_chunk held{first_device, unit};
      CHECK_THROWS_AS((physical_chunk{first_device, unit}), out_of_memory);
    }
    CHECK(memory_budget::remove("killed", first_device.uuid()));
    if (!is_killed) break;
    REQUIRE(++kills < 200);
  }
  CHECK(kills > 16);
}

TEST_CASE("memory_budget: a call of the system that fails leaves nothing") {
  const budget_folder folder;
  detail::protocol_step_hook = fail_at_step;
  for (const int error : {EIO, EMFILE}) {
    planned_error = error;
    for (long step = 1;; ++step) {
      REQUIRE(step < 500);
      CAPTURE(step);
      bool has_failed = false;
      bool is_joined = false;
      planned_step = step;
      try {
        memory_budget budget{first_device, "fails", granule()};
        is_joined = true;
        budget.set_limit(2 * granule());
        static_cast<void>(memory_budget::all());
      } catch (const ipc_error& failure) {
        has_failed = true;
        CHECK(failure.reason() == ipc_failure::system);
      } catch (const out_of_memory& failure) {
        has_failed = true;
        CHECK(failure.resource() == exhausted::descriptors);
      }
      const bool is_over = planned_step > 0;
      planned_step = 0;
      if (has_failed)
        for (const budget_report& each : memory_budget::all()) CHECK(each.holders.empty());
      CHECK(memory_budget::all().size() == (is_joined ? 1 : 0));
      memory_budget::remove("fails", first_device.uuid());
      if (is_over) break;
    }
  }
  detail::protocol_step_hook = nullptr;
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
