// SPDX-License-Identifier: MIT
// Budgets of two and three processes: requests to others, waits and deaths.
#include <hipvmm/container/reserve_all.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include "ipc/budget/budget_test.hpp"
#include "ipc/budget/futex.hpp"
#include "support/is_ready.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* folder_variable = "HIPVMM_TEST_FOLDER";
constexpr const char* name_variable = "HIPVMM_TEST_NAME";
constexpr const char* holds_variable = "HIPVMM_TEST_HOLDS";
constexpr const char* gives_variable = "HIPVMM_TEST_GIVES";
constexpr const char* priority_variable = "HIPVMM_TEST_PRIORITY";

std::string text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  REQUIRE(value != nullptr);
  return value;
}

int number_of(const char* variable) { return std::stoi(text_of(variable)); }

bool is_there(const std::string& file) { return std::ifstream{file}.good(); }

void make(const std::string& file) { std::ofstream{file} << "x"; }

/// How a callback of a child behaves besides numbers of granules.
constexpr int hangs = -1;
constexpr int has_none = -2;
constexpr int leaves = -3;        // the budget, in another thread
constexpr int attends_late = -4;  // at the file `.go`, again at `.end`, and gives 1

HIPVMM_CHILD("holds memory of a budget") {
  const std::size_t unit = budget_unit();
  const std::string mine = text_of(folder_variable) + '/' + text_of(name_variable);
  const auto holds = static_cast<std::size_t>(number_of(holds_variable));
  int gives = number_of(gives_variable);
  const bool leaves_when_asked = gives == leaves;
  static std::atomic<bool> holds_all{false};
  static const std::string path = mine;
  // A region each: some releases return memory only when a region is empty (quirk::re_reserve).
  std::vector<region> memory;
  std::size_t held = 0;
  budget_options options{.priority = number_of(priority_variable)};
  if (gives != has_none) {
    options.trim = [&](std::size_t bytes) {
      make(mine + ".asked");
      if (leaves_when_asked) std::this_thread::sleep_for(50ms);
      if (gives == hangs) comes_true([&] { return is_there(mine + ".end"); });
      for (; gives > 0 && bytes != 0; --gives, bytes -= std::min(bytes, unit)) {
        memory[--held].decommit(0, unit);
      }
    };
  }
  if (leaves_when_asked)
    detail::protocol_step_hook = [](const char* step) {
      if (std::string{step} == "leave") std::this_thread::sleep_for(50ms);
      return 0;
    };
  if (gives == attends_late) {
    gives = 1;
    detail::protocol_step_hook = [](const char* step) {
      if (std::string{step} != "attend" || !holds_all) return 0;
      const bool is_again = is_there(path + ".go");
      make(path + (is_again ? ".again" : ".late"));
      comes_true([=] { return is_there(path + (is_again ? ".end" : ".go")); });
      return 0;
    };
  }
  std::optional<memory_budget> budget;
  budget.emplace(first_device, "shared", 8 * unit, options);
  for (; held < holds; ++held) memory.emplace_back(first_device, unit).commit(0, unit);
  holds_all = true;
  make(mine + ".holds");
  comes_true([&] { return is_there(mine + (leaves_when_asked ? ".asked" : ".end")); });
  budget.reset();
}

/// Two or three processes, of which this is one.
struct budget_peers : budget_folder {
  temporary_folder files;
  std::vector<std::pair<std::string, std::future<child_result>>> children;
  const std::size_t unit = budget_unit();

  budget_peers() { release_idle_memory(); }
  ~budget_peers() {
    for (auto& [name, result] : children) {
      make(file(name, ".end"));
      const child_result child = result.get();
      CHECK_MESSAGE((passed(child) || child.status == 128 + SIGKILL), child.output);
    }
  }
  [[nodiscard]] std::string file(const std::string& name, const char* ending) const {
    return (files.path() / (name + ending)).string();
  }
  void start(const std::string& name, int holds, int gives, int priority = 0) {
    const auto assignment = [](const char* of, const std::string& value) {
      return std::string{of} + '=' + value;
    };
    children.emplace_back(name, std::async(std::launch::async, [=, path = files.path().string()] {
                            return run_child(
                                "holds memory of a budget",
                                {assignment(folder_variable, path), assignment(name_variable, name),
                                 assignment(holds_variable, std::to_string(holds)),
                                 assignment(gives_variable, std::to_string(gives)),
                                 assignment(priority_variable, std::to_string(priority))});
                          }));
    REQUIRE(comes_true([&] { return is_there(file(name, ".holds")); }));
  }
  [[nodiscard]] bool was_asked(const std::string& name) const {
    return is_there(file(name, ".asked"));
  }
  [[nodiscard]] static ::pid_t other_process() {
    const budget_report now = memory_budget::all().at(0);
    for (const budget_holder& each : now.holders)
      if (each.process != ::getpid()) return each.process;
    return 0;
  }
};

budget_options waits(std::chrono::milliseconds patience, int priority = 0) {
  return budget_options{.priority = priority, .patience = patience};
}

slot_arena_options one_plane(std::size_t prefetched) {
  return slot_arena_options{.slots = 2,
                            .bytes_per_slot = 8 * budget_unit(),
                            .block_bytes = budget_unit(),
                            .prefetch_blocks = prefetched};
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(budget_peers, "memory_budget: what would fit counts what other processes hold") {
  start("other", 5, has_none);
  const memory_budget budget{first_device, "shared", 8 * unit};
  slot_arena arena{first_device, {.slots = 16, .bytes_per_slot = unit}};
  CHECK(arena.slots_that_fit(unit) == 3);
  {
    mr::vmm_pool_resource pool{first_device, {.largest_chunk = unit}};
    CHECK(pool.statistics().largest_possible == 3 * unit);
    CHECK_THROWS_AS(static_cast<void>(pool.allocate_sync(4 * unit)), out_of_memory);
    pool.deallocate_sync(pool.allocate_sync(3 * unit), 3 * unit);
  }
  release_idle_memory();
  const stream used{first_device};
  std::vector<std::size_t> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(arena.acquire(used));
  arena.commit(slots, std::vector<std::size_t>(3, unit), used);
  CHECK(arena.slots_that_fit(unit) == 0);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: another process trims what this one needs") {
  start("other", 6, 6);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  CHECK(budget.report().limit == 8 * unit);
  region memory{first_device, 16 * unit};
  for (std::size_t i = 0; i < 5; ++i) memory.commit(i * unit, unit);
  CHECK(was_asked("other"));
  CHECK(budget.bytes() == 5 * unit);
  CHECK(budget.report().bytes <= 8 * unit);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: room is made without a request") {
  start("other", 6, 6);
  memory_budget budget{first_device, "shared", unit, waits(20s)};
  CHECK(budget.make_room(2 * unit));
  CHECK_FALSE(was_asked("other"));
  CHECK_FALSE(budget.make_room(9 * unit));
  CHECK_FALSE(was_asked("other"));
  CHECK(budget.make_room(5 * unit));
  CHECK(was_asked("other"));
  CHECK(budget.bytes() == 0);
  CHECK(budget.report().bytes <= 3 * unit);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a pool's request has another process trim too") {
  start("other", 7, 7);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  const stream stream;
  mr::vmm_pool_resource pool{first_device};
  void* const block = pool.allocate(stream, 4 * unit);
  CHECK(was_asked("other"));
  pool.deallocate(stream, block, 4 * unit);
}

TEST_CASE_FIXTURE(budget_peers,
                  "memory_budget: a process without a callback releases what it keeps") {
  start("other", 6, has_none);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  memory.commit(0, 2 * unit);
  const auto error = thrown_by<out_of_memory>([&] { memory.commit(2 * unit, unit); });
  const std::string text = error.what();
  CAPTURE(text);
  const std::size_t other = text.find("(process " + std::to_string(other_process()) + ")");
  CHECK(other != std::string::npos);
  // The largest holder is named first.
  CHECK(other < text.find(", this one)"));
  CHECK(memory.committed_bytes() == 2 * unit);
  // Nothing is waited for any more.
  for (const budget_holder& each : budget.report().holders) CHECK(each.waiting_for == 0);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: the lower priority is asked, the higher never") {
  start("low", 3, 3, -1);
  start("high", 3, 3, 1);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  memory.commit(0, 2 * unit);
  CHECK_FALSE(was_asked("low"));
  memory.commit(2 * unit, unit);
  CHECK(was_asked("low"));
  CHECK_FALSE(was_asked("high"));
  memory.commit(3 * unit, 2 * unit);
  CHECK_THROWS_AS(memory.commit(5 * unit, unit), out_of_memory);
  CHECK_FALSE(was_asked("high"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: where one cannot give enough, the next is asked") {
  start("first", 4, 1);
  start("next", 3, 3);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  memory.commit(0, unit);
  memory.commit(unit, unit);
  CHECK(was_asked("first"));
  memory.commit(2 * unit, unit);
  CHECK(was_asked("next"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: what can never fit has nobody trim") {
  start("low", 4, 4);
  start("high", 2, 2, 1);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  for (const std::size_t chunk : {7 * unit, unit})
    CHECK_THROWS_AS((region{first_device, 16 * unit}.commit(0, 7 * unit, chunk)), out_of_memory);
  CHECK_FALSE(was_asked("low"));
  region{first_device, 16 * unit}.commit(0, 6 * unit);
  CHECK(was_asked("low"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a growth of several chunks asks others once") {
  start("other", 8, 8);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  static std::atomic<int> asked{0};
  detail::protocol_step_hook = [](const char* step) {
    asked += std::string{step} == "wait" ? 1 : 0;
    return 0;
  };
  region memory{first_device, 16 * unit};
  memory.commit(0, 6 * unit, unit);
  detail::protocol_step_hook = nullptr;
  CHECK(asked.load() == 2);  // begins, and ends
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a request fails at its deadline") {
  start("other", 8, hangs);
  bool is_asked = false;
  // On a busy machine the deadline may be over before the other process looks: once more then.
  for (auto patience = 50ms; !is_asked && patience < 5s; patience *= 4) {
    const memory_budget budget{first_device, "shared", unit, waits(patience)};
    region memory{first_device, 16 * unit};
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(memory.commit(0, unit), out_of_memory);
    CHECK(std::chrono::steady_clock::now() - start >= patience);
    is_asked = comes_true([&] { return was_asked("other"); }, 1s);
  }
  CHECK(is_asked);
}

TEST_CASE_FIXTURE(budget_peers,
                  "memory_budget: a thread waits on when another's deadline is over") {
  start("other", 8, hangs);
  // On a busy machine the first deadline may be over before the second thread waits: once more
  // then.
  std::size_t left = 0;
  for (auto patience = 160ms; left == 0; patience *= 2) {
    memory_budget budget{first_device, "shared", unit, waits(patience)};
    const auto waits_for = [&] {
      for (const budget_holder& each : budget.report().holders)
        if (each.process == ::getpid()) return each.waiting_for;
      return std::size_t{0};
    };
    const auto make_room = [&] { return budget.make_room(unit); };
    auto first = std::async(std::launch::async, make_room);
    CHECK(comes_true([&] { return waits_for() == unit || is_ready(first); }));
    std::this_thread::sleep_for(patience / 2);
    const auto began = std::chrono::steady_clock::now();
    auto second = std::async(std::launch::async, make_room);
    bool both_wait = false;
    CHECK(comes_true([&] {
      both_wait = waits_for() == 2 * unit;
      return both_wait || is_ready(first);
    }));
    CHECK_FALSE(first.get());
    std::this_thread::sleep_for(2ms);  // deadlines are whole milliseconds
    left = waits_for();
    const bool is_late = std::chrono::steady_clock::now() >= began + patience;
    CHECK_FALSE(second.get());
    CHECK(waits_for() == 0);
    REQUIRE((left == unit || !both_wait || is_late));
    REQUIRE(patience < 5s);
  }
  CHECK(left == unit);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: without patience nobody is asked") {
  start("other", 8, 8);
  const memory_budget budget{first_device, "shared", unit, waits(0ms)};
  region memory{first_device, 16 * unit};
  CHECK_THROWS_AS(memory.commit(0, unit), out_of_memory);
  CHECK_FALSE(was_asked("other"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a killed process holds nothing") {
  start("other", 8, hangs);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  SUBCASE("before a request") { ::kill(other_process(), SIGKILL); }
  SUBCASE("during a request") {
    std::thread killer{[&] {
      comes_true([&] { return was_asked("other"); });
      ::kill(other_process(), SIGKILL);
    }};
    memory.commit(0, unit);
    killer.join();
  }
  memory.commit(unit, 7 * unit);
  CHECK(budget.report().holders.size() == 1);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a death is noticed while others keep changing") {
  start("other", 8, hangs);
  memory_budget budget{first_device, "shared", unit, waits(20s)};
  const auto file = detail::budget_file::look_at(only_file(path()).filename());
  std::atomic<bool> ends{false};
  std::thread changes{[&] {
    for (int i = 0; !ends; ++i) {
      if (i == 20) ::kill(other_process(), SIGKILL);
      detail::change_and_wake(file->shared().header.changes);
      std::this_thread::sleep_for(5ms);
    }
  }};
  const auto start = std::chrono::steady_clock::now();
  CHECK(budget.make_room(unit));
  CHECK(std::chrono::steady_clock::now() - start < 1500ms);
  ends = true;
  changes.join();
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: nobody trims for what a killed process held") {
  start("killed", 5, has_none, 1);
  start("other", 3, 3);
  memory_budget budget{first_device, "shared", unit, waits(20s)};
  ::kill(other_process(), SIGKILL);
  REQUIRE(comes_true([&] { return budget.report().holders.size() == 2; }));
  SUBCASE("a request for room") { CHECK(budget.make_room(5 * unit)); }
  SUBCASE("a lower limit") { budget.set_limit(3 * unit); }
  SUBCASE("a look") {
    const slot_arena arena{first_device, {.slots = 16, .bytes_per_slot = unit}};
    CHECK(comes_true([&] { return arena.slots_that_fit(unit) == 5; }));
  }
  CHECK_FALSE(happens([&] { return was_asked("other"); }));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a limit below what is held has holders trim") {
  start("gives", 4, 2);
  start("keeps", 4, 0);
  memory_budget::set_limit("shared", first_device.uuid(), 5 * unit);
  CHECK(comes_true([&] { return held_of_all() == 6 * unit; }));
  CHECK(comes_true([&] { return was_asked("keeps"); }));
  // Nobody is killed, and nobody gets more.
  CHECK(memory_budget::all().at(0).holders.size() == 2);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  CHECK_THROWS_AS((physical_chunk{first_device, unit}), out_of_memory);
  memory_budget::set_limit("shared", first_device.uuid(), 7 * unit);
  const physical_chunk fits{first_device, unit};
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a process that leaves makes room for who waits") {
  start("other", 8, 0);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  CHECK_THROWS_AS(memory.commit(0, unit), out_of_memory);
  make(file("other", ".end"));
  CHECK(comes_true([&] { return held_of_all() == 0; }));
  memory.commit(0, unit);
}

TEST_CASE_FIXTURE(budget_peers,
                  "memory_budget: a process that leaves while it is asked makes room") {
  start("other", 6, leaves);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  memory.commit(0, 5 * unit);
  CHECK(was_asked("other"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: a slot_arena's commit has another process trim") {
  start("other", 8, 8);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  const stream stream;
  slot_arena arena{first_device, one_plane(0)};
  arena.commit(std::vector<std::size_t>{0}, std::vector<std::size_t>{2 * unit}, stream);
  CHECK(was_asked("other"));
  CHECK(budget.bytes() == 2 * unit);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: requests that never fit together ask nobody") {
  start("other", 7, 7);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  const doctest::Contains why{"the request is larger than that"};
  const stream stream;
  slot_arena arena{first_device, one_plane(0)};
  const std::vector<std::size_t> lengths{8 * unit, 1};
  CHECK_THROWS_WITH_AS(arena.commit(std::vector<std::size_t>{0, 1}, lengths, stream), why,
                       out_of_memory);
  growable_device_vector<char> one{first_device};
  growable_device_vector<char> another{first_device};
  CHECK_THROWS_WITH_AS(reserve_all({{one, 5 * unit}, {another, 4 * unit}}), why, out_of_memory);
  CHECK_FALSE(was_asked("other"));
  CHECK(budget.bytes() == 0);
  growable_device_vector<char> uncounted{
      first_device,
      {.max_bytes = 4 * unit, .past_max = past_max_size::refuse, .fallback = without_vmm::always}};
  reserve_all({{one, 5 * unit}, {one, 4 * unit}, {uncounted, 4 * unit}});  // the larger one counts
  CHECK(one.capacity() == 5 * unit);
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: the prefetch of a slot_arena asks nobody") {
  start("other", 7, 7);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  const stream stream;
  slot_arena arena{first_device, one_plane(2)};
  arena.commit(std::vector<std::size_t>{0}, std::vector<std::size_t>{unit}, stream);
  CHECK(comes_true([&] { return arena.statistics().failed_prefetches != 0; }));
  CHECK_FALSE(was_asked("other"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: what a callback allocates asks nobody") {
  start("other", 3, attends_late);
  region memory{first_device, 4 * unit};
  memory.commit(0, 4 * unit);
  region given{first_device, unit};
  given.commit(0, unit);
  std::atomic<int> refused{0};
  budget_options options = waits(20s);
  options.trim = [&](std::size_t) {
    make(file("other", ".go"));
    const auto began = std::chrono::steady_clock::now();
    CHECK_THROWS_AS((region{first_device, unit}.commit(0, unit)), out_of_memory);
    CHECK(std::chrono::steady_clock::now() - began < 10s);  // the other does not answer meanwhile
    given.decommit(0, unit);
    ++refused;
  };
  memory_budget budget{first_device, "shared", unit, options};
  budget.set_limit(7 * unit);
  CHECK(comes_true([&] { return refused != 0 && held_of_all() <= 7 * unit; }));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: one that attends late is not asked for another") {
  start("late", 3, attends_late);
  std::vector<region> memory;
  for (int i = 0; i < 4; ++i) memory.emplace_back(first_device, unit).commit(0, unit);
  const budget_options options{.trim = [&](std::size_t) {
    make(file("late", ".go"));
    CHECK(comes_true([&] { return is_there(file("late", ".again")) || was_asked("late"); }));
    memory.pop_back();
  }};
  memory_budget budget{first_device, "shared", unit, options};
  REQUIRE(comes_true([&] { return is_there(file("late", ".late")); }));
  const auto shared_file = detail::budget_file::look_at(detail::budget_file::all().at(0));
  const detail::budget_layout& table = shared_file->shared();
  REQUIRE(comes_true([&] { return table.records[1].answered == table.header.requests; }));
  // The other is still at the request that this process has answered.
  budget.set_limit(6 * unit);
  CHECK(comes_true([&] { return held_of_all() <= 6 * unit; }));
  CHECK_FALSE(was_asked("late"));
}

TEST_CASE_FIXTURE(budget_peers, "memory_budget: what is made ahead asks nobody") {
  start("other", 7, 7);
  const memory_budget budget{first_device, "shared", unit, waits(20s)};
  region memory{first_device, 16 * unit};
  memory.commit(0, unit);
  memory.prepare(unit, prefetch_level::created);
  CHECK(comes_true([&] { return memory.failed_preparations() != 0; }));
  CHECK_FALSE(was_asked("other"));
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
