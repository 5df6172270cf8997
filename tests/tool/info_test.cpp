// SPDX-License-Identifier: MIT
// hipvmm-info as its users run it, on any provider.
#include <csignal>
#include <nlohmann/json.hpp>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/device.hpp>
#include "support/test.hpp"
#include "tool/info_program.hpp"

using namespace hipvmm::test;

TEST_CASE("info: JSON tells every device with its path, granularity and reasons") {
  const nlohmann::json result = info_json({});
  CHECK(result["provider"]["name"] == PROVIDER_NAME);
  REQUIRE(result["devices"].size() == static_cast<std::size_t>(hipvmm::device_count()));
  for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal) {
    const nlohmann::json& told = result["devices"][static_cast<std::size_t>(ordinal)];
    const hipvmm::device_ref device{ordinal};
    const hipvmm::capability known = hipvmm::capability_of(device);
    CHECK(told["ordinal"] == ordinal);
    CHECK(told["name"] == device.name());
    const nlohmann::json uuid = told["uuid"];
    if (!uuid.is_null()) CHECK(hipvmm::device_with_uuid(uuid.get<std::string>()) == device);
    CHECK(told["memory"]["total"] == device.total_memory());
    CHECK(told["path"] == hipvmm::name_of(known.path()));
    CHECK(told["why_fallback"] == known.why_fallback());
    CHECK(told["granularity"]["minimum"] == known.minimum_granularity());
    CHECK(told["granularity"]["recommended"] == known.recommended_granularity());
    CHECK(told["quirks"].size() == known.quirks().size());
    REQUIRE(told["reasons"].size() == hipvmm::trait_count);
    for (std::size_t i = 0; i < hipvmm::trait_count; ++i) {
      const auto which = static_cast<hipvmm::trait>(i);
      const nlohmann::json& reason = told["reasons"][std::string{hipvmm::name_of(which)}];
      CAPTURE(hipvmm::name_of(which));
      CAPTURE(known.reason(which));
      // A probe may see nothing if other programs use the device; host devices are this one's.
      const bool both_saw =
          reason["finding"] != "unknown" && known[which] != hipvmm::finding::unknown;
      if (both_saw || std::string_view{PROVIDER_NAME} == "host")
        CHECK(reason["finding"] == hipvmm::name_of(known[which]));
      if (known[which] == hipvmm::finding::no) CHECK(reason["reason"] != "");
    }
    for (int peer = 0; peer < hipvmm::device_count(); ++peer) {
      if (peer == ordinal) continue;
      const bool listed =
          std::find(told["peers"].begin(), told["peers"].end(), peer) != told["peers"].end();
      CHECK(listed == device.can_access_peer(hipvmm::device_ref{peer}));
    }
  }
}

TEST_CASE("info: JSON tells the limits of the process") {
  const nlohmann::json limits = info_json({})["limits"];
  CHECK(limits["descriptors"]["open"] >= 3);
  CHECK(limits["descriptors"]["soft"] <= limits["descriptors"]["hard"]);
  CHECK(limits["max_map_count"] > 0);
}

TEST_CASE("info: JSON goes to a file that is named, and nothing to standard output") {
  const temporary_file file;
  CHECK(info_text({"--json", file.path()}).empty());
  CHECK(nlohmann::json::parse(file.contents())["devices"].size() >= 1);
}

TEST_CASE("info: a dash names standard output") {
  CHECK(nlohmann::json::parse(info_text({"--json=-"}))["devices"].size() >= 1);
  CHECK(nlohmann::json::parse(info_text({"--json=/dev/stdout"}))["devices"].size() >= 1);
}

TEST_CASE("info: --device leaves the other devices out") {
  const nlohmann::json result = info_json({"--device", "0"});
  REQUIRE(result["devices"].size() == 1);
  CHECK(result["devices"][0]["ordinal"] == 0);
  CHECK_FALSE(contains(info_text({"--device=0"}), "\ndevice 1: "));
}

TEST_CASE("info: --probe tells the same path as the record at hand") {
  nlohmann::json probed;
  nlohmann::json at_hand;
  // Other tests take memory of a real device meanwhile, so that a probe may not see
  // the end of its own. Such a finding is not kept.
  for (int i = 0; i < 5 && (i == 0 || probed["path"] != at_hand["path"]); ++i) {
    probed = info_json({"--probe"})["devices"][0];
    at_hand = info_json({})["devices"][0];
  }
  INFO("probed: ", probed.dump(), "\nat hand: ", at_hand.dump());
  CHECK(probed["path"] == at_hand["path"]);
}

TEST_CASE("info: --help names every option, --version the version") {
  const std::string help = info_text({"--help"});
  for (const char* option : {"--json", "--probe", "--explain", "--device", "--version"})
    CHECK(contains(help, option));
  CHECK(info_text({"--version"}).starts_with("hipvmm-info "));
}

TEST_CASE("info: text begins with what a bug report needs first") {
  const std::string text = info_text({});
  CHECK(text.starts_with("hipvmm "));
  CHECK(contains(text, ", provider " PROVIDER_NAME "\n"));
  for (const char* label : {"  runtime   ", "  driver    ", "  kernel    ", "  descriptors   "})
    CHECK(contains(text, label));
  CHECK(contains(text, "\ndevice 0: " + hipvmm::device_ref{0}.name() + '\n'));
}

TEST_CASE("info: --explain says more of every trait") {
  const std::string plain = info_text({"--device=0"});
  const std::string explained = info_text({"--device=0", "--explain"});
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = explained.find("\n    means ", at)) != std::string::npos; ++at)
    ++rows;
  CHECK(rows == hipvmm::trait_count);
  CHECK_FALSE(contains(plain, "\n    means "));
}

TEST_CASE("info: what was misspelt is refused") {
  check_fails(info({"--bogus"}), 2,
              {"info: there is no option '--bogus' (see hipvmm-info --help)"});
  check_fails(
      info({"--bogus", "--devise=1", "x"}), 2,
      {"no option '--bogus', and there is no option '--devise'; did you mean --device? (see"});
  check_fails(info({"--jsno", "--device", "first"}), 2, {"'--jsno'; did you mean --json?"});
  check_fails(info({"extra", "words"}), 2,
              {"'extra' is one word too many, and 'words' is one word too many", "--help"});
  check_fails(info({"--device"}), 2, {"--device lacks its value"});
  check_fails(info({"--device=first"}), 2, {"--device", "first", "--help"});
  check_fails(info({"--json", "--explain"}), 2, {"--json", "--explain"});
}

TEST_CASE("info: a device that does not exist is refused") {
  check_fails(info({"--device=4711"}), 2, {"--device: device 4711 does not exist"});
  check_fails(info({"--device=-1"}), 2, {"--device: '-1' is no device"});
}

TEST_CASE("info: a file that cannot be made is named") {
  check_fails(info({"--json=/nonexistent/report"}), 1, {"'/nonexistent/report'", "No such file"});
}

TEST_CASE("info: a report that fails leaves the last one") {
  const temporary_file file{"last"};
  const surroundings given{.environment = {"HIPVMM_CAPABILITY=bogus=1"}};
  check_fails(info({"--json", file.path()}, given), 1, {"bogus=1"});
  CHECK(file.contents() == "last");
  check_fails(info({"--json=/dev/full"}), 1, {"'/dev/full'", "No space left"});
}

TEST_CASE("info: an output that takes nothing is a failure") {
  const surroundings closed{.closed_output = true};
  const surroundings deserted{.deserted_output = true};
  const surroundings full{.output_file = "/dev/full"};
  for (const std::vector<std::string>& arguments :
       std::array<std::vector<std::string>, 2>{{{}, {"--json"}}}) {
    check_fails(info(arguments, closed), 1, {"standard output is closed"});
    const outcome ended = info(arguments, deserted);
    CHECK(ended.status == 128 + SIGPIPE);  // as of other programs before `head`
    CHECK(ended.err.empty());
    check_fails(info(arguments, full), 1, {"cannot write", "No space left"});
  }
}

TEST_CASE("info: variables that steer HIP or hipvmm are told, others are not") {
  const nlohmann::json told =
      info_json({}, {"HIPVMM_TOLD=yes", "ROCR_VISIBLE_DEVICES=0", "SECRET_TOLD=no"})["environment"];
  CHECK(told["HIPVMM_TOLD"] == "yes");
  CHECK(told["ROCR_VISIBLE_DEVICES"] == "0");
  CHECK_FALSE(told.contains("SECRET_TOLD"));
}
