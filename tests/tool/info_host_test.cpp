// SPDX-License-Identifier: MIT
// hipvmm-info on the host provider, which can imitate releases of HIP and their failures.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/process/child_process.hpp"
#include "tool/info_program.hpp"

using namespace hipvmm::test;

TEST_CASE("info: JSON is whole under every profile" * names_its_profiles) {
  for (const std::string profile : {"strict", "rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1",
                                    "rocm-7.2", "rocm-7.14", "rocm-10", "cuda-13"}) {
    CAPTURE(profile);
    const nlohmann::json result = info_json({}, {"HIPVMM_HOST_PROFILE=" + profile});
    CHECK(result["environment"]["HIPVMM_HOST_PROFILE"] == profile);
    REQUIRE(result["devices"].size() == 3);
    for (const nlohmann::json& device : result["devices"]) {
      const std::string path = device["path"];
      CHECK(std::set<std::string>{"vmm", "vmm_with_quirks", "fallback"}.contains(path));
      CHECK((path == "vmm_with_quirks") == !device["quirks"].empty());
      CHECK((path == "fallback") == (profile == "rocm-5.7"));
      CHECK((path == "fallback") == !device["why_fallback"].get<std::string>().empty());
      CHECK((path == "fallback") == (device["granularity"]["minimum"] == 0));
    }
  }
}

TEST_CASE("info: without virtual memory management the reason is told" * names_its_profiles) {
  const std::string old = "HIPVMM_HOST_PROFILE=rocm-5.7";
  const nlohmann::json result = info_json({"--device=0"}, {old});
  const nlohmann::json& known = result["devices"][0]["reasons"]["virtual_memory"];
  CHECK(known["finding"] == "no");
  CHECK(known["reason"] != "");
  CHECK(result["limits"]["largest_reservation"] == nullptr);
  const std::string text = info_text({}, {old});
  CHECK(contains(text, "  path          fallback: buffers grow by copying. Why: virtual_memory"));
  CHECK(contains(text, "  addresses     none could be reserved\n"));
}

TEST_CASE("info: versions are told as the runtime numbers them and as people do" *
          names_its_profiles) {
  CHECK(contains(info_text({}, {"HIPVMM_HOST_PROFILE=rocm-7.1"}),
                 "  runtime       7.1.0 (hipRuntimeGetVersion: 70100000)\n"));
  CHECK(contains(info_text({}, {"HIPVMM_HOST_PROFILE=cuda-13"}),
                 "  runtime       13.0 (hipRuntimeGetVersion: 13000)\n"));
}

TEST_CASE("info: the matrix of peers has a row for each device") {
  CHECK(contains(info_text({}),
                 "      0   1   2\n  0   -   yes no\n  1   yes -   no\n  2   no  no  -\n"));
  CHECK_FALSE(
      contains(info_text({}, {"HIPVMM_HOST_DEVICES=1", "HIPVMM_HOST_PEERS=none"}), "\npeers: "));
  CHECK_FALSE(
      contains(info_text({}, {"HIPVMM_HOST_DEVICES=1", "HIPVMM_HOST_PEERS=none"}), "\nlinks: "));
}

TEST_CASE("info: links are told under every profile, to every other device" * names_its_profiles) {
  for (const std::string profile : {"strict", "rocm-5.7", "rocm-7.2", "cuda-13"}) {
    CAPTURE(profile);
    const bool is_cuda = profile == "cuda-13";
    for (const int count : {2, 3}) {
      const std::vector<std::string> environment{"HIPVMM_HOST_PROFILE=" + profile,
                                                 "HIPVMM_HOST_DEVICES=" + std::to_string(count)};
      const nlohmann::json devices = info_json({}, environment)["devices"];
      REQUIRE(devices.size() == static_cast<std::size_t>(count));
      for (const nlohmann::json& device : devices) {
        REQUIRE(device["links"].size() == static_cast<std::size_t>(count - 1));
        for (const nlohmann::json& link : device["links"]) {
          const bool reached = device["ordinal"] != 2 && link["peer"] != 2;
          CHECK(link["peer"] != device["ordinal"]);
          CHECK(link["can_access"] == reached);
          CHECK(link["access_supported"] == reached);
          CHECK(link["type"] == (is_cuda ? nlohmann::json(nullptr) : nlohmann::json("pcie")));
          CHECK(link["hops"] == (is_cuda ? nlohmann::json(nullptr) : nlohmann::json(1)));
          CHECK(link["performance_rank"].is_null() == !is_cuda);
          CHECK(link["native_atomics"] == false);
        }
      }
      const std::string text = info_text({}, environment);
      CHECK(contains(text, "\nlinks: type and number of hops: HIP does not report it\n") ==
            is_cuda);
      CHECK(contains(text, "\nlinks: rank, 0 the fastest: HIP does not report it\n") == !is_cuda);
    }
  }
}

TEST_CASE("info: without a device one sentence says so") {
  const surroundings given{.environment = {"HIPVMM_HOST_DEVICES=0", "HIPVMM_HOST_PEERS=none"}};
  check_fails(info({}, given), 1, {"no HIP device", "HIPVMM_HOST_DEVICES says how many"});
  check_fails(info({"--json"}, given), 1, {"no HIP device"});
}

TEST_CASE("info: devices that fail are told of, and what is known without them") {
  const surroundings given{
      .environment = {"HIPVMM_HOST_FAULTS=hipDeviceTotalMem error=hipErrorUnknown"}};
  const outcome ended = info({"--json"}, given);
  CHECK(ended.status == 1);
  CHECK(contains(ended.err, "hipvmm-info: device 1: "));
  const nlohmann::json result = nlohmann::json::parse(ended.out);
  CHECK(result["provider"]["name"] == "host");
  CHECK(result["devices"].empty());
  REQUIRE(result["failed"].size() == 3);
  CHECK(result["failed"][1]["ordinal"] == 1);
  CHECK(contains(result["failed"][1]["error"], "hipDeviceTotalMem"));
  // The text has the reasons; standard error does not repeat them.
  const outcome text = info({}, given);
  CHECK(text.status == 1);
  CHECK(contains(text.out, "\ndevice 1: failed: "));
  CHECK(text.err == "hipvmm-info: 3 of 3 devices failed, see above\n");
}

TEST_CASE("info: what HIPVMM_CAPABILITY assumes is told in the record" * names_its_profiles) {
  const std::string assumed = "HIPVMM_CAPABILITY=assume:tail_access=no";
  const nlohmann::json told =
      info_json({"--device=0"}, {assumed, "HIPVMM_HOST_PROFILE=strict"})["devices"][0];
  CHECK(contains(told["origin"], "HIPVMM_CAPABILITY"));
  CHECK(told["reasons"]["tail_access"]["finding"] == "no");
  CHECK(told["path"] == "vmm_with_quirks");
  const std::string text = info_text({"--device=0"}, {assumed, "HIPVMM_HOST_PROFILE=strict"});
  CHECK(contains(text, "\n  access_from_base "));
}

TEST_CASE("info: a HIPVMM_CAPABILITY that means nothing is refused") {
  const surroundings given{.environment = {"HIPVMM_CAPABILITY=bogus=1"}};
  check_fails(info({}, given), 1, {"HIPVMM_CAPABILITY", "bogus=1"});
}
