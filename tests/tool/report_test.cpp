// SPDX-License-Identifier: MIT
// The reports of hipvmm-info about records made by hand, so that every state of one is shown.
#include "tool/info/text_report.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "capability/capability.hpp"
#include "support/test.hpp"
#include "tool/info/json_report.hpp"

namespace {

using hipvmm::finding;
using hipvmm::trait;
using hipvmm::tool::detail_level;
using hipvmm::tool::facts;

hipvmm::capability::record healthy() {
  hipvmm::capability::record record;
  record.findings.fill(finding::yes);
  record.reasons.fill("seen.");
  record.minimum_granularity = 2 * hipvmm::MiB;
  record.recommended_granularity = 2 * hipvmm::MiB;
  record.descriptors_per_chunk = 0;
  record.costs = {1000, 10250, 2000, 22000, 15000, 3000, 1500};
  record.fingerprint = "a device of the test";
  record.origin = "probed now, HIPVMM_CAPABILITY=assume:tail_access=no applied";
  return record;
}

facts about(hipvmm::capability::record record) {
  record.conclude();
  return {{"0.2.0",
           "amd",
           "HIP headers 6.4",
           60400000,
           60400000,
           "Linux 6.8.0 x86_64",
           7,
           1024,
           static_cast<std::size_t>(-1),
           65530,
           64 * hipvmm::TiB,
           {{"HIPVMM_CAPABILITY", "x"}}},
          {{hipvmm::device_ref{0},
            "gfx of the test",
            hipvmm::device_uuid{
                {'9', 'c', '5', 'd', '1', 'a', '0', 'b', 'e', '6', 'f', '7', '3', '4', '8', '2'}},
            64,
            8 * hipvmm::GiB,
            4 * hipvmm::GiB,
            {},
            hipvmm::capability{std::make_shared<hipvmm::capability::record>(std::move(record))}}},
          {}};
}

std::string text(hipvmm::capability::record record, detail_level level = detail_level::plain) {
  return text_report(about(std::move(record)), level);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Lines that a page of 80 columns breaks, but those that hold one long word.
std::size_t wide_lines(const std::string& page) {
  std::size_t count = 0;
  std::istringstream lines{page};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t last_word = line.find_last_of(' ') + 1;
    const bool one_word = line.find_last_not_of(' ', last_word - 1) == std::string::npos;
    if (line.size() > 80 && !one_word) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("text_report: a device without defects is told in a page") {
  const std::string page = text(healthy());
  CAPTURE(page);
  CHECK(page.starts_with(
      "hipvmm 0.2.0, provider amd\n"
      "  built with    HIP headers 6.4\n"
      "  runtime       6.4.0 (hipRuntimeGetVersion: 60400000)\n"
      "  driver        6.4.0 (hipDriverGetVersion: 60400000)\n"
      "  kernel        Linux 6.8.0 x86_64\n"
      "  descriptors   7 open, 1024 allowed, can be raised to any number\n"
      "  mappings      65530 allowed (vm.max_map_count)\n"
      "  addresses     64.00 TiB could be reserved at once\n"
      "  environment   HIPVMM_CAPABILITY=x\n"
      "\n"
      "device 0: gfx of the test\n"
      "  uuid          GPU-9c5d1a0be6f73482\n"
      "  lanes         64\n"
      "  memory        8.00 GiB, 4.00 GiB free\n"
      "  path          vmm: buffers grow in place, no work-around is needed\n"
      "  granularity   2.00 MiB at least, 2.00 MiB recommended\n"
      "  descriptors   0 for each chunk\n"
      "  calls         reserve 1.0, create 10.2, map 2.0, set access 22.0, unmap 15.0,\n"
      "                release 3.0, free 1.5 us\n"
      "  pools         a new chunk takes 34.2 us, an unmap 15.0 us: a pool's request\n"
      "                unmaps old addresses that it needs, and may wait 500.0 us for\n"
      "                freed memory instead of new memory; a trim takes 4 chunks at a\n"
      "                time\n"
      "  record        probed now, HIPVMM_CAPABILITY=assume:tail_access=no applied\n"
      "  of            a device of the test\n"
      "\n"
      "  trait                   finding  reason\n"
      "  virtual_memory          yes      seen.\n"));
}

TEST_CASE("text_report: work-arounds in force are told with their cause") {
  hipvmm::capability::record record = healthy();
  record.findings[static_cast<std::size_t>(trait::tail_access)] = finding::no;
  record.findings[static_cast<std::size_t>(trait::visible_at_once)] = finding::no;
  record.visibility_delay = std::chrono::milliseconds{4};
  const std::string page = text(record, detail_level::explained);
  CAPTURE(page);
  CHECK(contains(page, "  path          vmm_with_quirks: "));
  CHECK(contains(page, "  seen after    4000.0 us\n"));
  CHECK(contains(page, "\n  access_from_base"));
  CHECK(contains(page, "\n  wait_until_visible"));
  CHECK_FALSE(contains(page, "\n  verify_maps "));
}

TEST_CASE("text_report: the fallback is told with its reason") {
  hipvmm::capability::record record = healthy();
  record.findings[static_cast<std::size_t>(trait::unmaps_each)] = finding::no;
  record.reasons[static_cast<std::size_t>(trait::unmaps_each)] = "hipMemUnmap gave nothing back.";
  const std::string page = text(record);
  CAPTURE(page);
  CHECK(
      contains(page,
               "  path          fallback: buffers grow by copying. Why: unmaps_each: hipMemUnmap\n"
               "                gave nothing back.\n"));
}

TEST_CASE("text_report: what was not measured is said to be so") {
  hipvmm::capability::record record = healthy();
  record.descriptors_per_chunk = -1;
  record.costs = {};
  record.minimum_granularity = 0;
  const std::string page = text(record);
  CHECK(contains(page, "  descriptors   not measured\n  calls         not measured\n"));
  CHECK(contains(page, "  granularity   none\n"));
}

TEST_CASE("text_report: keeps to 80 columns, but does not break words") {
  hipvmm::capability::record record = healthy();
  record.reasons.fill(
      "a reason of many words that goes on and on so that it needs more than one "
      "line, or even two of them, before it comes to an end at last");
  record.origin = "read from /" + std::string(120, 'x');
  for (const detail_level level : {detail_level::plain, detail_level::explained}) {
    const std::string page = text(record, level);
    CAPTURE(page);
    CHECK(wide_lines(page) == 0);
    CHECK(contains(page, "                /" + std::string(120, 'x') + '\n'));
  }
}

TEST_CASE("json_report: tells the record as it is") {
  hipvmm::capability::record record = healthy();
  record.findings[static_cast<std::size_t>(trait::tail_access)] = finding::no;
  record.findings[static_cast<std::size_t>(trait::host_access)] = finding::unknown;
  const nlohmann::json told = nlohmann::json::parse(json_report(about(record)))["devices"][0];
  CHECK(told["path"] == "vmm_with_quirks");
  CHECK(told["quirks"] == nlohmann::json::array({"access_from_base"}));
  CHECK(told["granularity"] == nlohmann::json{{"minimum", 2097152}, {"recommended", 2097152}});
  CHECK(told["reasons"]["tail_access"] == nlohmann::json{{"finding", "no"}, {"reason", "seen."}});
  CHECK(told["reasons"]["host_access"]["finding"] == "unknown");
  CHECK(told["costs_ns"]["create"] == 10250);
  CHECK(told["pools"]["unmaps_in_requests"] == true);
  CHECK(told["origin"] == record.origin);
  CHECK(told["fingerprint"] == record.fingerprint);
}

TEST_CASE("reports: a UUID that the runtime does not report is said to be missing") {
  facts known = about(healthy());
  CHECK(nlohmann::json::parse(json_report(known))["devices"][0]["uuid"] == "GPU-9c5d1a0be6f73482");
  known.devices[0].uuid.reset();
  CHECK(contains(text_report(known, detail_level::plain),
                 "  uuid          none: hipDeviceGetUuid reports none for this device\n"));
  CHECK(nlohmann::json::parse(json_report(known))["devices"][0]["uuid"] == nullptr);
}

TEST_CASE("reports: links are told by device, and what HIP does not report as unknown") {
  facts known = about(healthy());
  constexpr hipvmm::device_ref first{0};
  constexpr hipvmm::device_ref second{1};
  hipvmm::peer_link fast{first, second};
  fast.can_access = true;
  fast.type = hipvmm::link_type::xgmi;
  fast.hops = 1;
  fast.access_supported = true;
  fast.native_atomics = true;
  known.devices[0].links = {fast};
  known.devices.push_back(known.devices[0]);
  known.devices[1].device = second;
  known.devices[1].links = {hipvmm::peer_link{second, first}};
  const std::string page = text_report(known, detail_level::plain);
  CAPTURE(page);
  CHECK(page.ends_with(
      "\npeers: may the device of the row reach memory of the device of the column?\n"
      "      0   1\n"
      "  0   -   yes\n"
      "  1   no  -\n"
      "\nlinks: type and number of hops\n"
      "      0       1\n"
      "  0   -       xgmi 1\n"
      "  1   unknown -\n"
      "\nlinks: rank, 0 the fastest: HIP does not report it\n"
      "\nlinks: native atomics\n"
      "      0       1\n"
      "  0   -       yes\n"
      "  1   unknown -\n"
      "\nlinks: access to arrays: HIP does not report it\n"));
  const nlohmann::json told = nlohmann::json::parse(json_report(known))["devices"];
  CHECK(told[0]["peers"] == nlohmann::json::array({1}));
  CHECK(told[0]["links"] == nlohmann::json::array({{{"peer", 1},
                                                    {"can_access", true},
                                                    {"type", "xgmi"},
                                                    {"hops", 1},
                                                    {"performance_rank", nullptr},
                                                    {"access_supported", true},
                                                    {"native_atomics", true},
                                                    {"array_access", nullptr}}}));
  CHECK(told[1]["peers"].empty());
  CHECK(told[1]["links"][0]["type"] == nullptr);
  CHECK(told[1]["links"][0]["hops"] == nullptr);
}

TEST_CASE("json_report: takes bytes that are no UTF-8") {
  facts known = about(healthy());
  known.process.environment = {{"HIPVMM_CAPABILITY", "\xff"}};
  const nlohmann::json told = nlohmann::json::parse(json_report(known));
  CHECK(told["environment"]["HIPVMM_CAPABILITY"] == "\xef\xbf\xbd");
}
