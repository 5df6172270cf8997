// SPDX-License-Identifier: MIT
// Programs that know nothing of hipvmm, with and without libhipvmm_preload.so.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "preload/preload_program.hpp"
#include "support/pools_are_missing.hpp"
#include "support/process/program.hpp"

namespace hipvmm::test {
namespace {

const std::vector<std::vector<std::string>> all_options{
    {}, {"--threshold", "2MiB"}, {"--most", "2MiB"}};

/// The program's output is the same with and without.
void check_same(const char* task) {
  CAPTURE(task);
  const outcome plain = run_plain(task);
  CHECK_MESSAGE(plain.status == 0, plain.out);
  for (const std::vector<std::string>& options : all_options) {
    CAPTURE(options.size());
    const outcome replaced = run_replaced(options, task);
    CHECK(replaced.status == plain.status);
    CHECK(replaced.out == plain.out);
    CHECK(replaced.err == plain.err);
  }
}

TEST_CASE("preload: a program prints the same with and without") {
  for (const char* const task : {"copies", "threads", "captures", "errors", "forks", "held", "info",
                                 "ranges", "devices", "resets", "waits", "streams", "nothing"}) {
    check_same(task);
  }
}

TEST_CASE("preload: all calls of a program are replaced") {
  const nlohmann::json counts = run_counted({}, "copies").counts;
  CHECK(counts["allocations"] == 16);
  CHECK(counts["stream_allocations"] == 6);
  CHECK(counts["frees"] == 16);
  CHECK(counts["stream_frees"] == 6);
  CHECK(counts["bytes_now"] == 0);
  for (const auto& [reason, count] : counts["passed"].items()) {
    CAPTURE(reason);
    CHECK(count == 0);
  }
  REQUIRE(counts["pools"].size() == 1);
  CHECK(counts["pools"][0]["used"] == 0);
  CHECK(counts["pools"][0]["most_held"] >= counts["most_bytes"]);
}

TEST_CASE("preload: sizes below the threshold and above the most go to HIP, and their frees") {
  const nlohmann::json small = run_counted({"--threshold", "2MiB"}, "copies").counts;
  CHECK(small["allocations"] == 6);
  CHECK(small["passed"]["too_small"] == 16);
  CHECK(small["passed"]["foreign"] == 16);
  const nlohmann::json large = run_counted({"--most", "2MiB"}, "copies").counts;
  CHECK(large["allocations"] == 10);
  CHECK(large["passed"]["too_large"] == 6);
  CHECK(large["passed"]["foreign"] == 6);
}

TEST_CASE("preload: a call for a captured stream goes to HIP") {
  CHECK(run_counted({}, "captures").counts["passed"]["captured"] == 1);
}

TEST_CASE(
    "preload: memory of a pool that the program has set goes to HIP until it is the default's") {
  if (pools_are_missing()) return;
  check_same("pools");
  const nlohmann::json counts = run_counted({}, "pools").counts;
  CHECK(counts["passed"]["own_pool"] == 1);
  CHECK(counts["passed"]["foreign"] == 1);
  // One after the default pool was set, one after the other was destroyed.
  CHECK(counts["stream_allocations"] == 2);
}

TEST_CASE("preload: frees of no allocation are HIP's to refuse") {
  const nlohmann::json counts = run_counted({}, "errors").counts;
  CHECK(counts["passed"]["argument"] == 3);
  CHECK(counts["passed"]["out_of_memory"] == 2);
  CHECK(counts["passed"]["foreign"] == 1);
  CHECK(counts["passed"]["no_allocation"] == 1);
  const counted_run inside = run_counted({}, "inside");
  CHECK(contains(inside.ended.out, "hipFree: 0, last error none"));
  CHECK(inside.counts["passed"]["no_allocation"] == 1);
}

TEST_CASE("preload: a path that is relative stays the library's when the program moves") {
  const std::filesystem::path library{PRELOAD_LIBRARY};
  const std::string start = "cd " + library.parent_path().string() +
                            " && LD_PRELOAD=\"$LD_PRELOAD:./" + library.filename().string() +
                            "\" exec " PRELOAD_MEMORY_PROGRAM " moves";
  const temporary_file json;
  const outcome ended =
      run("/bin/sh", {"-c", start}, {.environment = {"HIPVMM_PRELOAD=json=" + json.path()}});
  CHECK(ended.out == run_plain("moves").out);
  CHECK(ended.err.empty());
  CHECK(contains(json.contents(), "\"allocations\":"));
}

TEST_CASE("preload: hipFree waits for the device unless it is told to return") {
  CHECK(run_replaced({}, "waits").out == "hipFree waited\n");
  CHECK(run_replaced({"--free", "returns"}, "waits").out == "hipFree returned\n");
  for (const char* const how : {"waits", "returns"})
    CHECK(run(PRELOAD_RUN_PROGRAM, {"--free", how, PRELOAD_LIBRARY_PROGRAM}).out ==
          "synchronize waited\n");
}

TEST_CASE("preload: memory of the pool has no handle for other processes, and that is said") {
  const counted_run run = run_counted({}, "handles");
  CHECK(contains(run.ended.out, "hipIpcGetMemHandle: 1, last error the same"));
  check_sentence(run.ended.err, "hipvmm_preload: ", {"no handle", "HIPVMM_PRELOAD=off", "most"});
  CHECK(run.counts["refused_handles"] == 1);
  CHECK(run_replaced({"--most", "2MiB"}, "handles").out == run_plain("handles").out);
}

TEST_CASE("preload: a program's devices have a pool each, and a reset ends one") {
  CHECK(run_counted({}, "devices").counts["pools"].size() ==
        run_counted({}, "devices").counts["allocations"]);
  const nlohmann::json counts = run_counted({}, "resets").counts;
  CHECK(counts["allocations"] == 2);
  CHECK(counts["bytes_now"] == 0);
}

TEST_CASE("preload: the program that probes a new device is not served itself") {
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / ("hipvmm_cache_" + std::to_string(::getpid()));
  const counted_run run = run_counted({}, "copies", {"XDG_CACHE_HOME=" + cache.string()});
  std::filesystem::remove_all(cache);
  CHECK(run.ended.out == run_plain("copies").out);
  CHECK(run.ended.err.empty());
  CHECK(run.counts["allocations"] == 16);
}

TEST_CASE("preload: memory may be held at the end and freed by static objects") {
  const nlohmann::json counts = run_counted({}, "held").counts;
  CHECK(counts["bytes_now"] == 3 << 20);
  CHECK(counts["frees"] == 1);
}

TEST_CASE("preload: statistics are written though HIP has ended before") {
  const counted_run run = run_counted({"--statistics", "stderr"}, "ended");
  CHECK(run.ended.status == 0);
  CHECK(run.ended.out == run_plain("ended").out);
  CHECK(contains(run.ended.err, "allocations replaced, in stream order    1\n"));
  CHECK(run.counts["allocations"] == 2);
  CHECK(run.counts["frees"] == 1);
  // After the end hipFreeAsync is HIP's to refuse; CUDA's driver ends behind that handler.
  const int refused = run.counts["passed"]["failed"];
  CHECK(run.counts["stream_frees"] == 1 - refused);
  CHECK(run.counts["bytes_now"] == (2 + refused) << 20);
}

TEST_CASE("preload: a library that is loaded late and hidden is served too") {
  // By task: how many calls it makes.
  const std::vector<std::pair<std::string, int>> tasks{
      {"once", 1}, {"asks", 1}, {"again", 2}, {"beside", 2}};
  for (const auto& [task, calls] : tasks) {
    CAPTURE(task);
    const temporary_file file;
    const outcome ended =
        run(PRELOAD_RUN_PROGRAM, {"--json", file.path(), PRELOAD_LATE_PROGRAM, task});
    CAPTURE(ended.err);
    CHECK(ended.out == "plugin: 0\n");
    const nlohmann::json counts = nlohmann::json::parse(file.contents(), nullptr, false);
    REQUIRE(!counts.is_discarded());
    CHECK(counts["allocations"] == calls);
    CHECK(counts["frees"] == calls);
    CHECK(run(PRELOAD_RUN_PROGRAM, {"--off", PRELOAD_LATE_PROGRAM, task}).out == "plugin: 0\n");
  }
}

TEST_CASE("preload: where it is off nothing is loaded, nor where no call is made") {
  const std::string wrong = "HIPVMM_CONF=pool.maximum=nonsense";
  for (const outcome& ended : {run_replaced({"--off"}, "copies", {wrong}),
                               run_preloaded("copies", {wrong, "HIPVMM_PRELOAD=off"}),
                               run_preloaded("nothing", {wrong})}) {
    CHECK(ended.status == 0);
    CHECK(ended.err.empty());
  }
}

TEST_CASE("preload: statistics are one block on standard error") {
  const outcome ended = run_replaced({"--statistics", "stderr"}, "captures");
  CHECK(ended.err.starts_with("hipvmm_preload 0."));
  for (const char* const words :
       {"statistics of preload_memory_program (process ",
        "allocations replaced, in stream order    1\n",
        "passed: the stream is captured           1\n", "device 0: held now, most"}) {
    CAPTURE(words);
    CHECK_MESSAGE(contains(ended.err, words), ended.err);
  }
}

TEST_CASE("preload: what cannot be understood is said, and the program runs as without") {
  const std::string plain = run_plain("copies").out;
  outcome ended = run_preloaded("copies", {"HIPVMM_PRELOAD=treshold=1MiB"});
  CHECK(ended.out == plain);
  check_sentence(ended.err,
                 "hipvmm_preload: nothing is replaced: ", {"treshold", "did you mean threshold?"});
  ended = run_preloaded("copies", {"HIPVMM_CONF=pool.maximum=nonsense"});
  CHECK(ended.out == plain);
  check_sentence(ended.err, "hipvmm_preload: ", {"device", "nonsense"});
  ended = run_replaced({"--json", "/nonexistent/file"}, "copies");
  CHECK(ended.out == plain);
  check_sentence(ended.err, "hipvmm_preload: ", {"/nonexistent/file", "No such file"});
}

TEST_CASE("preload: a limit of the pool is none of the program's") {
  const counted_run run = run_counted({"--conf", "pool.maximum=4MiB"}, "copies");
  CHECK(run.ended.out == run_plain("copies").out);
  CHECK(run.counts["passed"]["out_of_memory"] > 0);
}

TEST_CASE("preload: functions of CUDA's driver are replaced however they are looked up") {
  for (const char* const lookup : {"symbols", "addresses", "old"}) {
    CAPTURE(lookup);
    CHECK(run(PRELOAD_DRIVER_PROGRAM, {lookup}).out == "right\n");
    const temporary_file file;
    const outcome ended = run(PRELOAD_RUN_PROGRAM, {"--library", PRELOAD_FOR_DRIVER, "--json",
                                                    file.path(), PRELOAD_DRIVER_PROGRAM, lookup});
    CAPTURE(ended.err);
    CHECK(ended.out == "right\n");
    const nlohmann::json counts = nlohmann::json::parse(file.contents(), nullptr, false);
    REQUIRE(!counts.is_discarded());
    CHECK(counts["allocations"] >= 1);
    CHECK(counts["frees"] == counts["allocations"]);
    CHECK(counts["stream_frees"] == counts["stream_allocations"]);
  }
}

// The pool belongs to a device's primary context, whose waits know nothing of another's work.
TEST_CASE("preload: memory of a program with contexts of its own on CUDA is the driver's") {
  for (const char* const how : {"context", "new_context"}) {
    CAPTURE(how);
    CHECK(run(PRELOAD_DRIVER_PROGRAM, {how}).out == "right\n");
    const temporary_file file;
    const outcome ended = run(PRELOAD_RUN_PROGRAM, {"--library", PRELOAD_FOR_DRIVER, "--json",
                                                    file.path(), PRELOAD_DRIVER_PROGRAM, how});
    CAPTURE(ended.err);
    CHECK(ended.out == "right\n");
    const nlohmann::json counts = nlohmann::json::parse(file.contents(), nullptr, false);
    REQUIRE(!counts.is_discarded());
    CHECK(counts["allocations"] == 0);
    CHECK(counts["passed"]["own_context"] == 1);
    CHECK(counts["passed"]["foreign"] == 1);
  }
}

}  // namespace
}  // namespace hipvmm::test
