// SPDX-License-Identifier: MIT
// Budgets in the C interface: alone, and with another process that trims.
#include <unistd.h>

#include <fstream>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "c/c_interface.hpp"
#include "ipc/budget/budget_folder.hpp"
#include "support/process/forked_child.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* files_variable = "HIPVMM_TEST_FOLDER";

hipvmm_status join(owned_budget& made, const std::string& name, const std::string& options) {
  return hipvmm_budget_join(0, name.c_str(), options.c_str(), nullptr, nullptr, made.out());
}

std::string limit_of(std::size_t bytes) { return "limit=" + std::to_string(bytes); }

hipvmm_budget_statistics statistics_of(hipvmm_budget budget) {
  return result_of(hipvmm_budget_get_statistics, budget);
}

owned_buffer make_steps() { return make_buffer("max=256MiB,step_limit=0,past_max=refuse"); }

/// A process that has released all it kept, and a folder for its budgets.
struct c_budgets : budget_folder {
  const std::size_t unit = budget_unit();

  c_budgets() { release_all(); }
  ~c_budgets() { release_all(); }
  static void release_all() {
    require_ok(hipvmm_drain_retired_memory());
    chunk_cache::shared().trim();
  }
};

bool is_there(const std::string& file) { return std::ifstream{file}.good(); }

/// The trim callback of a test.
using trimming = std::function<void(std::size_t)>;

void call_trimming(std::size_t bytes, void* argument) {
  (*static_cast<trimming*>(argument))(bytes);
}

HIPVMM_CHILD("C: trims a buffer for others") {
  const std::string files = std::getenv(files_variable);
  const std::size_t unit = budget_unit();
  owned_buffer cache = make_steps();
  owned_budget budget;
  std::atomic<hipvmm_budget> joined{nullptr};  // when the memory is held
  trimming trim = [&](std::size_t bytes) {
    CHECK(comes_true([&] { return joined.load() != nullptr; }));
    std::ofstream{files + "/asked"} << bytes;
    // It may release memory, and not use the budget.
    int room = 77;
    hipvmm_budget other = nullptr;
    CHECK(fails(hipvmm_budget_leave(joined), HIPVMM_ERROR_INVALID_ARGUMENT, "trim callback"));
    CHECK(hipvmm_budget_make_room(joined, 1, &room) == HIPVMM_ERROR_INVALID_ARGUMENT);
    CHECK(hipvmm_budget_join(1, "b", nullptr, nullptr, nullptr, &other) ==
          HIPVMM_ERROR_INVALID_ARGUMENT);
    CHECK(room == 77);
    cache.reset();
  };
  require_ok(hipvmm_budget_join(0, "shared", "limit=1GiB,priority=-3", call_trimming, &trim,
                                budget.out()));
  require_ok(hipvmm_buffer_resize_uninitialized(cache, 6 * unit));
  joined = budget.get();
  std::ofstream{files + "/holds"} << "x";
  comes_true([&] { return is_there(files + "/end"); });
  budget.reset();  // its callback uses objects that end before it
}

HIPVMM_CHILD("C: is in the budget of HIPVMM_CONF") {
  const std::size_t unit = budget_unit();
  const owned_buffer buffer = make_steps();
  require_ok(hipvmm_buffer_resize_uninitialized(buffer, 4 * unit));
  CHECK(held_of_all() >= 4 * unit);
  CHECK(fails(hipvmm_buffer_resize_uninitialized(buffer, 9 * unit), HIPVMM_ERROR_OUT_OF_MEMORY,
              "budget 'conf'"));
  // Pools and arenas are in the same.
  const owned_resource pool = make_pool();
  void* memory = nullptr;
  CHECK(fails(hipvmm_allocate(pool, 6 * unit, 0, nullptr, &memory), HIPVMM_ERROR_OUT_OF_MEMORY,
              "budget 'conf'"));
  const owned_slot_arena arena{
      result_of(hipvmm_slot_arena_create, 0, "slots=1,bytes_per_slot=64MiB")};
  owned_budget other;
  CHECK(fails(join(other, "other", ""), HIPVMM_ERROR_INVALID_ARGUMENT, "budget"));
}

HIPVMM_CHILD("C: has a mistake in HIPVMM_CONF") {
  hipvmm_buffer buffer = nullptr;
  hipvmm_resource pool = nullptr;
  CHECK(hipvmm_buffer_create(0, nullptr, &buffer) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_pool_create(0, nullptr, &pool) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(buffer == nullptr);
  CHECK(pool == nullptr);
}

HIPVMM_CHILD("C: has idle pools of a budget") {
  const std::string files = std::getenv(files_variable);
  const std::size_t unit = budget_unit();
  // Of another device, which nobody asks for memory of.
  owned_resource elsewhere;
  void* other = nullptr;
  require_ok(hipvmm_pool_create(device_count() > 1 ? 1 : 0, nullptr, elsewhere.out()));
  if (device_count() > 1) {
    require_ok(hipvmm_allocate(elsewhere, unit, 0, nullptr, &other));
    require_ok(hipvmm_deallocate(elsewhere, other, unit, 0, nullptr));
  }
  const owned_resource pool = make_pool();
  const hipvmm_resource of_device = result_of(hipvmm_device_pool, 0);
  std::vector<void*> blocks(9);
  for (void*& each : blocks) require_ok(hipvmm_allocate(pool, unit, 0, nullptr, &each));
  require_ok(hipvmm_allocate(of_device, 2 * unit, 0, nullptr, &other));
  require_ok(hipvmm_deallocate(of_device, other, 2 * unit, 0, nullptr));
  while (blocks.size() > 1) {
    require_ok(hipvmm_deallocate(pool, blocks.back(), unit, 0, nullptr));
    blocks.pop_back();
  }
  require_ok(hipvmm_synchronize(nullptr));
  // A callback has no lock of the library against it, and may use all of that.
  std::future<void> made;
  std::optional<memory_event_subscription> events{[&](const memory_event& event) {
    if (event.kind != memory_event_kind::trim || made.valid()) return;
    made = std::async(std::launch::async, [] { static_cast<void>(make_pool()); });
    CHECK(made.wait_for(std::chrono::seconds{20}) == std::future_status::ready);
  }};
  std::ofstream{files + "/holds"} << "x";
  comes_true([&] { return is_there(files + "/end"); });
  events.reset();
  const auto now = result_of(hipvmm_pool_get_statistics, elsewhere);
  CHECK((device_count() == 1 || now.reserved_current >= unit));
  require_ok(hipvmm_deallocate(pool, blocks.back(), unit, 0, nullptr));
  require_ok(hipvmm_resource_destroy(of_device));
}

std::size_t reserved_of(hipvmm_resource pool) {
  return result_of(hipvmm_pool_get_statistics, pool).reserved_current;
}

HIPVMM_CHILD("C: has two idle pools of a budget") {
  const std::string files = std::getenv(files_variable);
  const std::size_t unit = budget_unit();
  const owned_resource pools[2] = {make_pool(), make_pool()};
  std::size_t held[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    void* block = nullptr;
    require_ok(hipvmm_allocate(pools[i], 4 * unit, 0, nullptr, &block));
    require_ok(hipvmm_deallocate(pools[i], block, 4 * unit, 0, nullptr));
    held[i] = reserved_of(pools[i]);
    CHECK(held[i] >= 4 * unit);
  }
  require_ok(hipvmm_synchronize(nullptr));
  std::ofstream{files + "/holds"} << held[0] + held[1];
  comes_true([&] { return is_there(files + "/end"); });
  CHECK_FALSE((reserved_of(pools[0]) < held[0] && reserved_of(pools[1]) < held[1]));
}

owned_resource make_pool_of_device() { return owned_resource{result_of(hipvmm_device_pool, 0)}; }

std::future<void> made_in_handler;
std::atomic<bool> is_made{false};

/// Has an error handler that makes pools in another thread, and makes the first pool by `make`. The
/// handler is told that the file of HIPVMM_CAPABILITY is none.
void make_pools_in_handler(owned_resource (*make)()) {
  require_ok(hipvmm_set_error_handler([](const char*, int, const char*) {
    if (made_in_handler.valid()) return;
    made_in_handler = std::async(std::launch::async, [] {
      static_cast<void>(make_pool());
      static_cast<void>(make_pool_of_device());
    });
    is_made = made_in_handler.wait_for(std::chrono::seconds{20}) == std::future_status::ready;
  }));
  static_cast<void>(make());
  CHECK(is_made);
  CHECK(memory_budget::all().front().holders.size() == 1);
}

HIPVMM_CHILD("C: has an error handler that makes pools while a pool joins the budget") {
  make_pools_in_handler([] { return make_pool(); });
}

HIPVMM_CHILD("C: has an error handler that makes pools while that of the device joins it") {
  make_pools_in_handler(make_pool_of_device);
}

HIPVMM_CHILD("C: has threads that join the budget at once") {
  std::vector<std::future<void>> threads(4);
  for (auto& each : threads)
    each = std::async(std::launch::async, [] { static_cast<void>(make_pool()); });
  for (auto& each : threads) each.get();
  CHECK(memory_budget::all().front().holders.size() == 1);
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(c_budgets, "C budget: what the process creates counts") {
  owned_budget budget;
  require_ok(join(budget, "counts", limit_of(8 * unit) + ",priority=-7,patience=0"));
  CHECK(statistics_of(budget).own_bytes == 0);
  const owned_buffer buffer = make_steps();
  require_ok(hipvmm_buffer_resize_uninitialized(buffer, 3 * unit));
  const hipvmm_budget_statistics now = statistics_of(budget);
  CHECK(now.limit == 8 * unit);
  CHECK(now.bytes == now.own_bytes);
  CHECK(now.own_bytes >= 3 * unit);
  CHECK(now.holders == 1);
  CHECK(result_of(hipvmm_budget_get_holders, budget, nullptr, 0) == 1);
  hipvmm_budget_holder holders[2] = {};
  CHECK(result_of(hipvmm_budget_get_holders, budget, holders, 2) == 1);
  CHECK(holders[0].process == ::getpid());
  CHECK(holders[0].priority == -7);
  CHECK(holders[0].bytes == now.own_bytes);
  CHECK(holders[0].waiting_for == 0);
  CHECK(std::string{holders[0].program}.rfind("test_c", 0) == 0);
}

TEST_CASE_FIXTURE(c_budgets, "C budget: a limit refuses, and is changed at run time") {
  owned_budget budget;
  require_ok(join(budget, "refuses", limit_of(4 * unit)));
  const owned_buffer buffer = make_steps();
  CHECK(fails(hipvmm_buffer_resize_uninitialized(buffer, 6 * unit), HIPVMM_ERROR_OUT_OF_MEMORY,
              "budget 'refuses'"));
  CHECK(result_of(hipvmm_last_failure).exhausted == HIPVMM_EXHAUSTED_BUDGET);
  CHECK(result_of(hipvmm_budget_make_room, budget, 6 * unit) == 0);
  require_ok(hipvmm_budget_set_limit(budget, 8 * unit));
  CHECK(result_of(hipvmm_budget_make_room, budget, 6 * unit) == 1);
  require_ok(hipvmm_buffer_resize_uninitialized(buffer, 6 * unit));
  // An owner without a budget has no limit.
  budget.reset();
  require_ok(hipvmm_buffer_resize_uninitialized(buffer, 10 * unit));
}

TEST_CASE_FIXTURE(c_budgets, "C budget: without a limit it is all memory of the device") {
  const owned_budget budget{result_of(hipvmm_budget_join, 0, "whole", nullptr, nullptr, nullptr)};
  CHECK(statistics_of(budget).limit == first_device.total_memory());
}

TEST_CASE_FIXTURE(c_budgets, "C budget: wrong arguments are refused") {
  owned_budget budget;
  const auto refused = [&](const char* name, const char* options, const char* text) {
    hipvmm_budget made = nullptr;
    return fails(hipvmm_budget_join(0, name, options, nullptr, nullptr, &made),
                 HIPVMM_ERROR_INVALID_ARGUMENT, text) &&
           made == nullptr;
  };
  CHECK(refused(nullptr, nullptr, "name is null"));
  CHECK(refused("a/b", nullptr, "a/b"));
  CHECK(refused("a", "limit=0", "zero"));
  CHECK(refused("a", "limit=much", "much"));
  CHECK(refused("a", "priority=high", "-1000 to 1000"));
  CHECK(refused("a", "priority=-", "-1000 to 1000"));
  CHECK(refused("a", "patience=-1", "milliseconds"));
  CHECK(refused("a", "cap=1GiB", "cap"));
  CHECK(hipvmm_budget_join(99, "a", nullptr, nullptr, nullptr, budget.out()) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_budget_join(0, "a", nullptr, nullptr, nullptr, nullptr) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  require_ok(join(budget, "a", "limit=1GiB"));
  CHECK(refused("b", nullptr, "budget"));
  std::size_t count = 77;
  CHECK(fails(hipvmm_budget_get_holders(budget, nullptr, 1, &count), HIPVMM_ERROR_INVALID_ARGUMENT,
              "holders is null"));
  CHECK(count == 77);
  hipvmm_budget_holder holder{};
  CHECK(hipvmm_budget_get_holders(budget, &holder, 1, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_budget_make_room(budget, 1, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_budget_get_statistics(budget, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

/// Another process, a test case of this program, that holds memory until end().
struct neighbour {
  explicit neighbour(const char* name, std::vector<std::string> variables = {}) {
    variables.push_back(std::string{files_variable} + '=' + files.path().string());
    child = std::async(std::launch::async, [name, variables = std::move(variables)] {
      return run_child(name, variables);
    });
    REQUIRE(comes_true([this] { return is_there(file("holds")); }));
  }
  [[nodiscard]] std::string file(const char* name) const { return (files.path() / name).string(); }
  void end() {
    std::ofstream{file("end")} << "x";
    const child_result result = child.get();
    CHECK_MESSAGE(passed(result), result.output);
  }

  temporary_folder files;
  std::future<child_result> child;
};

TEST_CASE_FIXTURE(c_budgets, "C budget: another process trims what this one needs") {
  neighbour other{"C: trims a buffer for others"};
  {
    owned_budget budget;
    require_ok(join(budget, "shared", "patience=20000"));
    CHECK(statistics_of(budget).limit == GiB);
    const std::size_t held = statistics_of(budget).bytes;
    CHECK(held >= 6 * unit);
    require_ok(hipvmm_budget_set_limit(budget, held + unit));
    CHECK_FALSE(is_there(other.file("asked")));
    hipvmm_budget_holder first{};
    CHECK(result_of(hipvmm_budget_get_holders, budget, &first, 1) == 2);
    CHECK(first.priority == -3);
    const owned_buffer buffer = make_steps();
    SUBCASE("by a request") { require_ok(hipvmm_buffer_resize_uninitialized(buffer, 4 * unit)); }
    SUBCASE("ahead of it") { CHECK(result_of(hipvmm_budget_make_room, budget, 4 * unit) == 1); }
    CHECK(is_there(other.file("asked")));
  }
  other.end();
}

TEST_CASE_FIXTURE(c_budgets, "C budget: a child of fork() takes no part") {
  owned_budget budget;
  require_ok(join(budget, "parent", "limit=1GiB"));
  CHECK(succeeds_in_forked_child([&] {
    hipvmm_budget_statistics now{};
    now.struct_size = sizeof now;
    return hipvmm_budget_get_statistics(budget, &now) == HIPVMM_ERROR_UNSUPPORTED &&
           hipvmm_budget_leave(budget) == HIPVMM_OK;
  }));
  CHECK(statistics_of(budget).holders == 1);
}

TEST_CASE_FIXTURE(c_budgets, "C budget: programs as they are take part in that of HIPVMM_CONF") {
  const auto tested = [](const char* name, const std::string& conf) {
    const child_result result = run_child(name, {"HIPVMM_CONF=" + conf});
    CHECK_MESSAGE(passed(result), result.output);
  };
  tested("C: is in the budget of HIPVMM_CONF", "budget=conf:" + std::to_string(8 * unit));
  tested("C: has a mistake in HIPVMM_CONF", "budget=:4GiB");
  tested("C: has a mistake in HIPVMM_CONF", "budget=conf:much");
  tested("C: has a mistake in HIPVMM_CONF", "budget=a/b");
}

TEST_CASE_FIXTURE(c_budgets,
                  "C budget: that of HIPVMM_CONF is joined once with no lock for callbacks") {
  const temporary_folder files;
  const std::string none = (files.path() / "none").string();
  std::ofstream{none} << "no capability record";
  const std::string conf = "HIPVMM_CONF=budget=once:1GiB";
  const auto tested = [&](const char* name, const std::string& capability) {
    const child_result result =
        run_child(name, {conf, "HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_CAPABILITY=" + capability});
    CHECK_MESSAGE(passed(result), result.output);
  };
  tested("C: has an error handler that makes pools while a pool joins the budget", none);
  tested("C: has an error handler that makes pools while that of the device joins it", none);
  tested("C: has threads that join the budget at once", "");
}

TEST_CASE_FIXTURE(c_budgets, "C budget: pools give idle memory to who needs it") {
  neighbour other{"C: has idle pools of a budget",
                  {"HIPVMM_CONF=budget=idle:" + std::to_string(16 * unit)}};
  {
    owned_budget budget;
    require_ok(join(budget, "idle", "patience=20000"));
    CHECK(statistics_of(budget).bytes >= 9 * unit);
    const owned_buffer buffer = make_steps();
    // quirk::re_reserve: a pool releases memory only when nothing is allocated.
    const bool in_part =
        text_of(hipvmm_device_capability, 0).find("re_reserve") == std::string::npos;
    if (in_part) require_ok(hipvmm_buffer_resize_uninitialized(buffer, 13 * unit));
  }
  other.end();
}

TEST_CASE_FIXTURE(c_budgets, "C budget: pools give no more than is needed") {
  neighbour other{"C: has two idle pools of a budget", {"HIPVMM_CONF=budget=needed:1GiB"}};
  {
    owned_budget budget;
    require_ok(join(budget, "needed", "patience=20000"));
    const std::size_t limit = statistics_of(budget).bytes + unit;
    require_ok(hipvmm_budget_set_limit(budget, limit));
    const owned_buffer buffer = make_steps();
    require_ok(hipvmm_buffer_resize_uninitialized(buffer, 2 * unit));
    CHECK(statistics_of(budget).bytes <= limit);
  }
  other.end();
}

TEST_SUITE_END();

TEST_CASE_FIXTURE(c_budgets, "C budget: without virtual memory there is none" * needs_fallback) {
  owned_budget budget;
  CHECK(join(budget, "none", "") == HIPVMM_ERROR_UNSUPPORTED);
}

}  // namespace
}  // namespace hipvmm::test
