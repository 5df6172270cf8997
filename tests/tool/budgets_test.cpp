// SPDX-License-Identifier: MIT
// Budgets as hipvmm-info and hipvmm-ctl show them and set their limits.
#include <nlohmann/json.hpp>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "ipc/budget/budget_folder.hpp"
#include "support/process/program.hpp"
#include "support/test.hpp"
#include "tool/budgets.hpp"
#include "tool/info_program.hpp"

namespace hipvmm::test {
namespace {

/// A folder for the budgets of this process and of the programs.
struct tool_budgets : budget_folder {
  const surroundings with_folder{.environment = {"HIPVMM_BUDGETS=" + path().string()}};

  [[nodiscard]] outcome ctl(const std::vector<std::string>& arguments) const {
    return run(CTL_PROGRAM, arguments, with_folder);
  }
  [[nodiscard]] std::string text(const std::vector<std::string>& arguments) const {
    const outcome ended = ctl(arguments);
    CAPTURE(ended.err);
    CHECK(ended.err.empty());
    CHECK(ended.status == 0);
    return ended.out;
  }
  void fails(const std::vector<std::string>& arguments, int status,
             const std::vector<std::string>& words) const {
    const outcome ended = ctl(arguments);
    CAPTURE(ended.err);
    CHECK(ended.status == status);
    CHECK(ended.out.empty());
    check_sentence(ended.err, "hipvmm-ctl: ", words);
  }
};

const device_uuid some_device{{'a', 'b', 'c', '1', '2', '3'}};

TEST_CASE_FIXTURE(tool_budgets, "budgets: the text names limit, bytes and every process") {
  const std::vector<budget_report> all{{"infer",
                                        some_device,
                                        8 * MiB,
                                        3 * MiB,
                                        {{12, "small", 0, MiB, 0}, {34, "large", -1, 2 * MiB, 5}}}};
  CHECK(tool::budgets_text(all) ==
        "budget infer on " + to_string(some_device) +
            ": 3.00 MiB of 8.00 MiB held by 2 processes\n"
            "  process 34 (large): 2.00 MiB, priority -1, waits for 5 B\n"
            "  process 12 (small): 1.00 MiB, priority 0\n");
  const nlohmann::json told = nlohmann::json::parse(tool::budgets_json(all));
  REQUIRE(told["budgets"].size() == 1);
  const nlohmann::json& one = told["budgets"][0];
  CHECK(one["name"] == "infer");
  CHECK(one["device"] == to_string(some_device));
  CHECK(one["limit"] == 8 * MiB);
  CHECK(one["bytes"] == 3 * MiB);
  CHECK(one["holders"][0]["process"] == 34);
  CHECK(one["holders"][0]["program"] == "large");
  CHECK(one["holders"][0]["priority"] == -1);
  CHECK(one["holders"][0]["bytes"] == 2 * MiB);
  CHECK(one["holders"][0]["waiting_for"] == 5);
}

TEST_CASE("budgets: a limit that no memory reaches is unlimited") {
  const std::vector<budget_report> all{
      {"infer", some_device, std::numeric_limits<std::size_t>::max(), 3 * MiB, {}}};
  CHECK(tool::budgets_text(all) ==
        "budget infer on " + to_string(some_device) +
            ": 3.00 MiB of unlimited held by 0 processes; `hipvmm-ctl remove infer` removes it\n");
}

TEST_CASE("budgets: the removal of one of several of a name names its device") {
  const std::vector<budget_report> all{
      {"infer", some_device, MiB, 0, {}}, {"infer", {}, MiB, 0, {}}, {"other", {}, MiB, 0, {}}};
  const std::string text = tool::budgets_text(all);
  CHECK(text.find("`hipvmm-ctl remove infer --device " + to_string(some_device) + "` removes it") !=
        std::string::npos);
  CHECK(text.find("`hipvmm-ctl remove other` removes it") != std::string::npos);
}

TEST_CASE_FIXTURE(tool_budgets, "budgets: both programs say that there are none") {
  CHECK(text({"list"}) == "no budgets\n");
  CHECK(info_text({"--budgets"}, with_folder.environment) == "no budgets\n");
  CHECK(nlohmann::json::parse(text({"list", "--json"}))["budgets"].empty());
}

TEST_CASE_FIXTURE(tool_budgets, "budgets: hipvmm-ctl sets limits, before and while they are used") {
  memory_budget::set_limit("a", some_device, MiB);
  CHECK(text({"limit", "a", "2GiB"}) ==
        "budget a on " + to_string(some_device) +
            ": 0 B of 2.00 GiB held by 0 processes; `hipvmm-ctl remove a` removes it\n");
  CHECK(memory_budget::all().at(0).limit == std::size_t{2} << 30);
  CHECK(text({"list"}) == info_text({"--budgets"}, with_folder.environment));
  static_cast<void>(text({"limit", "a", "0", "--device", to_string(some_device)}));
  CHECK(memory_budget::all().at(0).limit == 0);
  CHECK(text({"remove", "a"}).empty());
  CHECK(text({"list"}) == "no budgets\n");
  static_cast<void>(text({"limit", "b", "1MiB", "--device", "0"}));
  CHECK(memory_budget::all().at(0).device == first_device.uuid());
}

TEST_CASE_FIXTURE(tool_budgets, "budgets: JSON goes to a file that is named") {
  memory_budget::set_limit("a", some_device, MiB);
  const temporary_file file;
  CHECK(text({"list", "--json", file.path()}).empty());
  CHECK(nlohmann::json::parse(file.contents())["budgets"].size() == 1);
  CHECK(info_text({"--budgets", "--json", file.path()}, with_folder.environment).empty());
  CHECK(nlohmann::json::parse(file.contents())["budgets"][0]["name"] == "a");
}

TEST_CASE_FIXTURE(tool_budgets, "budgets: hipvmm-info leaves out those of other devices") {
  memory_budget::set_limit("a", some_device, MiB);
  CHECK(info_text({"--budgets", "--device", "0"}, with_folder.environment) == "no budgets\n");
}

TEST_CASE_FIXTURE(tool_budgets, "budgets: what is wrong is one sentence and an exit code") {
  fails({}, 2, {"subcommand"});
  fails({"limit", "a"}, 2, {"SIZE"});
  fails({"limit", "a", "much"}, 2, {"'much' is no size"});
  fails({"shrink", "a"}, 2,
        {"there is no subcommand 'shrink'; choose one of list, limit, remove or keep"});
  fails({"lsit"}, 2, {"there is no subcommand 'lsit'; did you mean list?"});
  fails({"limt", "a", "1MiB", "--device", "0"}, 2,
        {"hipvmm-ctl: there is no subcommand 'limt'; did you mean limit? (see"});
  fails({"limit", "--devise", "0", "a"}, 2, {"no option '--devise'; did you mean --device?"});
  fails({"--json", "list"}, 2, {"there is no option '--json' before the subcommand"});
  fails({}, 2, {"list, limit, remove or keep"});
  fails({"limit", "a", "1MiB"}, 1, {"there is no budget 'a'", "hipvmm-ctl list"});
  fails({"remove", "a"}, 1, {"there is no budget 'a'"});
  fails({"remove", "a", "--device", "0"}, 1, {"there is no budget 'a' on that device"});
  fails({"limit", "a", "1MiB", "--device", "GPU-none"}, 1, {"there is no device 'GPU-none'"});
  fails({"limit", "a", "1MiB", "--device", "99"}, 2, {"99"});
  fails({"limit", "a/b", "1MiB", "--device", "0"}, 1, {"'a/b' is no name of a budget"});
  memory_budget::set_limit("a", some_device, MiB);
  memory_budget::set_limit("a", first_device.uuid(), MiB);
  fails({"limit", "a", "1MiB"}, 1, {"2 devices have a budget 'a'", "--device"});
}

TEST_CASE_FIXTURE(tool_budgets, "budgets: the programs show this process") {
  if (on_fallback()) {
    MESSAGE("skipped: this device has no chunks");
    return;
  }
  const memory_budget budget{first_device, "used", 64 * granule()};
  const physical_chunk held{first_device, granule()};
  const nlohmann::json told = nlohmann::json::parse(text({"list", "--json"}))["budgets"][0];
  REQUIRE(told["holders"].size() == 1);
  CHECK(told["holders"][0]["process"] == ::getpid());
  CHECK(told["holders"][0]["bytes"] == granule());
  fails({"remove", "used"}, 1, {"budget 'used' is used by", std::to_string(::getpid())});
}

}  // namespace
}  // namespace hipvmm::test
