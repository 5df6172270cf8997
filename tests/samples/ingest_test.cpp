// SPDX-License-Identifier: MIT
// ingest as its users run it: its input and its output.
#include <nlohmann/json.hpp>

#include "samples/ingest_program.hpp"
#include "support/test.hpp"

namespace {

using hipvmm::MiB;
using namespace hipvmm::test;

/// The JSON of a run that went well, which is silent on standard error.
nlohmann::json figures(const outcome& ended) {
  CAPTURE(ended.err);
  CHECK(ended.err.empty());
  REQUIRE(ended.status == 0);
  return nlohmann::json::parse(ended.out);
}

nlohmann::json figures(std::vector<std::string> arguments, const surroundings& given = {}) {
  arguments.insert(arguments.end(), {"--check", "--json=-"});
  return figures(ingest(arguments, given));
}

surroundings piped(std::size_t bytes) {
  surroundings given;
  given.standard_input = arbitrary_bytes(bytes);
  return given;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("ingest: the bytes of a file are on the device afterwards") {
  const temporary_file file{arbitrary_bytes(5 * MiB + 3)};
  for (const char* method : {"--method=vmm", "--method=copy"}) {
    CAPTURE(method);
    const nlohmann::json result = figures({method, file.path()});
    CHECK(result["bytes"] == 5 * MiB + 3);
    CHECK(result["verified"] == true);
  }
}

TEST_CASE("ingest: standard input is read when no file is named") {
  for (const char* method : {"--method=vmm", "--method=copy"}) {
    CAPTURE(method);
    const nlohmann::json result = figures({method}, piped(5 * MiB + 3));
    CHECK(result["bytes"] == 5 * MiB + 3);
    CHECK(result["verified"] == true);
  }
}

TEST_CASE("ingest: short reads of a pipe become whole blocks") {
  // A block is one growth step of 4 MiB; the pieces a pipe gives would make steps of one granule.
  const nlohmann::json result = figures({"--block=4MiB"}, piped(8 * MiB));
  CHECK(result["growth_steps"] == 2);
  CHECK(result["verified"] == true);
}

TEST_CASE("ingest: an input without data at the moment is waited for") {
  surroundings given = piped(8 * MiB);
  given.non_blocking_input = true;
  CHECK(figures({}, given)["bytes"] == 8 * MiB);
}

TEST_CASE("ingest: standard input takes its place among files") {
  const temporary_file first{arbitrary_bytes(MiB)};
  const temporary_file last{arbitrary_bytes(3)};
  const nlohmann::json result = figures({first.path(), "-", last.path()}, piped(2 * MiB));
  CHECK(result["bytes"] == 3 * MiB + 3);
  CHECK(result["files"] == nlohmann::json{first.path(), "-", last.path()});
}

TEST_CASE("ingest: empty input costs no memory") {
  for (const char* method : {"--method=vmm", "--method=copy"}) {
    CAPTURE(method);
    const nlohmann::json result = figures({method});
    CHECK(result["bytes"] == 0);
    CHECK(result["growth_steps"] == 0);
    CHECK(result["peak_physical_bytes"] == 0);
    CHECK(result["verified"] == true);
  }
}

TEST_CASE("ingest: the vmm method copies nothing and its base stays, or it says so") {
  const outcome ended = ingest({"--block=1MiB", "--check", "--json", "-"}, piped(9 * MiB));
  CHECK(figures(ended)["growth_steps"] > 1);
  const bool stays = !on_fallback();
  CHECK((ended.out.find("\"bytes_copied_by_growth\":0,") != std::string::npos) == stays);
  CHECK((ended.out.find("\"base_moved\":false,") != std::string::npos) == stays);
  CHECK(ended.out.find("\"verified\":true,") != std::string::npos);
}

TEST_CASE("ingest: the vmm method needs an eighth more memory than data at most") {
  if (on_fallback()) {
    MESSAGE("skipped: growth by copying needs old and new at once");
    return;
  }
  const nlohmann::json result = figures({"--block=1MiB"}, piped(40 * MiB));
  CHECK(result["peak_physical_bytes"] >= 40 * MiB);
  CHECK(result["peak_physical_bytes"] <= 45 * MiB);
}

TEST_CASE("ingest: the copy method copies what it holds and needs old and new at once") {
  // The capacity goes 1, 2, 4, 8 MiB.
  const nlohmann::json result = figures({"--method=copy", "--block=1MiB"}, piped(5 * MiB));
  CHECK(result["growth_steps"] == 4);
  CHECK(result["bytes_copied_by_growth"] == 7 * MiB);
  CHECK(result["peak_physical_bytes"] == 12 * MiB);
  CHECK(result["base_moved"] == true);
}

TEST_CASE("ingest: data beyond --max-size is kept without a copy") {
  const nlohmann::json result = figures({"--max-size=2MiB", "--block=1MiB"}, piped(9 * MiB));
  CHECK(result["verified"] == true);
  CHECK((result["bytes_copied_by_growth"] == 0) == !on_fallback());
}

TEST_CASE("ingest: verified is told only after --check") {
  const outcome ended = ingest({"--json=-"}, piped(100));
  CHECK_FALSE(figures(ended).contains("verified"));
}

TEST_CASE("ingest: people get one row") {
  const outcome ended = ingest({"--check"}, piped(5 * MiB));
  CHECK(ended.status == 0);
  CHECK(lines_of(ended.out) == 1);
  CHECK(ended.out.starts_with("vmm "));
  CHECK(ended.out.find("5.00 MiB") != std::string::npos);
  CHECK(ended.out.find("base stayed") != std::string::npos);
  CHECK(ended.out.find("verified") != std::string::npos);
}

TEST_CASE("ingest: --json FILE leaves the row on standard output") {
  const temporary_file json;
  const outcome ended = ingest({"--json", json.path()}, piped(100));
  CHECK(ended.status == 0);
  CHECK(lines_of(ended.out) == 1);
  CHECK(nlohmann::json::parse(json.contents())["bytes"] == 100);
}

TEST_CASE("ingest: a file's name that is not UTF-8 does not spoil the JSON") {
  const temporary_file file{"data", "\xff\xfe"};
  CHECK(figures({file.path()})["bytes"] == 4);
}

TEST_CASE("ingest: a progress bar is drawn on a terminal and wiped") {
  const temporary_file file{arbitrary_bytes(2 * MiB)};
  surroundings given;
  given.terminal_errors = true;
  const outcome ended = ingest({file.path()}, given);
  CHECK(ended.status == 0);
  CHECK(ended.err.find("2.00 MiB on the device") != std::string::npos);
  CHECK(ended.err.find("[####") != std::string::npos);
  CHECK(ended.err.ends_with("\r\033[K"));
}

TEST_CASE("ingest: no bar pretends to know the length of a pipe") {
  surroundings given = piped(2 * MiB);
  given.terminal_errors = true;
  const outcome ended = ingest({}, given);
  CHECK(ended.err.find("2.00 MiB on the device") != std::string::npos);
  CHECK(ended.err.find('#') == std::string::npos);
}

TEST_CASE("ingest: --help tells every option") {
  const outcome ended = ingest({"--help"});
  CHECK(ended.status == 0);
  for (const char* option :
       {"FILE", "--method", "--block", "--device", "--check", "--json", "--max-size"})
    CHECK(ended.out.find(option) != std::string::npos);
}
