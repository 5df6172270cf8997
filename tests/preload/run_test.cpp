// SPDX-License-Identifier: MIT
// hipvmm-run, as one types it.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "preload/preload_program.hpp"
#include "support/process/program.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {
namespace {

outcome hipvmm_run(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment = {}) {
  const surroundings given{.environment = environment};
  return run(PRELOAD_RUN_PROGRAM, arguments, given);
}

TEST_CASE("hipvmm-run: the program gets its arguments, its variables and its exit status") {
  const outcome ended =
      hipvmm_run({"--threshold", "64KiB", "--free", "returns", "sh", "-c",
                  "printf '%s\\n' \"$HIPVMM_PRELOAD\" \"$LD_PRELOAD\" \"$@\"; exit 7", "name",
                  "--version", "--", "a b"},
                 {"LD_PRELOAD="});
  CHECK(ended.status == 7);
  CHECK(ended.out == "threshold=65536,free=returns\n" PRELOAD_LIBRARY "\n--version\n--\na b\n");
  CHECK(ended.err.empty());
  CHECK(hipvmm_run({"--", "sh", "-c", "exit 3"}).status == 3);
}

TEST_CASE("hipvmm-run: a program's option without a value is its own, as one that needs a value") {
  for (const std::vector<std::string>& before :
       std::vector<std::vector<std::string>>{{}, {"--most", "1GiB"}, {"--most=1GiB"}}) {
    std::vector<std::string> words = before;
    words.insert(words.end(), {"sh", "-c", "echo \"$1\"", "name", "--resume="});
    CHECK(hipvmm_run(words).out == "--resume=\n");
  }
}

TEST_CASE("hipvmm-run: statistics that nobody reads leave the exit status to the program") {
  CHECK(run("/bin/bash", {"-c", "{ sleep 1; exec " PRELOAD_RUN_PROGRAM
                                " --statistics stderr " PRELOAD_MEMORY_PROGRAM
                                " copies; } 2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}"})
            .status == 0);
}

TEST_CASE("hipvmm-run: libraries that are preloaded already stay first") {
  const outcome ended = hipvmm_run({"--print"}, {"LD_PRELOAD=libc.so.6"});
  CHECK(ended.out == "LD_PRELOAD=libc.so.6:" PRELOAD_LIBRARY "\n");
}

TEST_CASE("hipvmm-run: options replace HIPVMM_PRELOAD, and without any it stays") {
  const std::vector<std::string> command{"sh", "-c", "echo $HIPVMM_PRELOAD $HIPVMM_CONF"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), command.begin(), command.end());
    return hipvmm_run(options, {"HIPVMM_PRELOAD=most=1GiB"}).out;
  };
  CHECK(with({}) == "most=1GiB\n");
  CHECK(with({"--off"}) == "off\n");
  CHECK(with({"--threshold", "0"}) == "threshold=0\n");
  CHECK(with({"--most", "4096", "--statistics", "stderr"}) == "most=4096,statistics=stderr\n");
  CHECK(with({"--conf", "pool.maximum=1GiB"}) == "most=1GiB pool.maximum=1GiB\n");
}

TEST_CASE("hipvmm-run: files are those of the folder that it was started in") {
  const outcome ended = hipvmm_run(
      {"--json", "counts.%p", "--statistics", "/a/file", "sh", "-c", "cd /; echo $HIPVMM_PRELOAD"});
  CHECK(ended.out == "statistics=/a/file,json=" +
                         (std::filesystem::current_path() / "counts.%p").string() + "\n");
}

TEST_CASE("hipvmm-run: - is standard output") {
  const outcome ended = hipvmm_run({"--json", "-", PRELOAD_MEMORY_PROGRAM, "copies"});
  CHECK(ended.out.find("{\"") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists("-"));
}

TEST_CASE("hipvmm-run: mistakes are one sentence") {
  const auto check_fails = [](const std::vector<std::string>& arguments, int status,
                              const std::vector<std::string>& words) {
    const outcome ended = hipvmm_run(arguments);
    CAPTURE(ended.err);
    CHECK(ended.status == status);
    CHECK(ended.out.empty());
    check_sentence(ended.err, "hipvmm-run: ", words);
  };
  check_fails({}, 2, {"PROGRAM is missing", "--help"});
  check_fails({"--threshold", "much", "true"}, 2, {"--threshold: 'much'", "4MiB"});
  check_fails({"--most", "0", "true"}, 2, {"--most: '0' is no byte"});
  check_fails({"--thresh", "1MiB", "true"}, 2,
              {"there is no option '--thresh'; did you mean --threshold?", "--help"});
  CHECK(hipvmm_run({"--", "--thresh"}).status == 127);
  check_fails({"--free", "never", "true"}, 2,
              {"--free: there is no 'never'; choose one of waits or returns"});
  check_fails({"--off", "--most", "1GiB", "true"}, 2, {"--off"});
  check_fails({"--json", "a,b", "true"}, 2, {"a,b", "comma"});
  check_fails({"--most", "1GiB", "--json=", "true"}, 2, {"--json= lacks its value"});
  for (const char* const each : {"--statistics", "--json", "--conf", "--library"}) {
    CAPTURE(each);
    check_fails({each, "", "true"}, 2, {std::string{each} + ": name "});
  }
  check_fails({"/nonexistent"}, 127, {"/nonexistent", "No such file"});
  check_fails({"/dev/null"}, 126, {"/dev/null", "Permission denied"});
  check_fails({"--conf", "nonsense=3", "echo", "ran"}, 2,
              {"HIPVMM_CONF", "nonsense", "pool.maximum"});
  check_fails({"--conf", "pool.maximum=much", "echo", "ran"}, 2,
              {"HIPVMM_CONF", "pool.maximum", "much"});
  check_fails({"--conf", "pool.maximum=5", "echo", "ran"}, 2,
              {"HIPVMM_CONF", "5 B", "raise pool.maximum"});
  check_fails({"--conf", "budget=:1GiB", "echo", "ran"}, 2, {"HIPVMM_CONF", "budget"});
  check_fails({"--conf", "nonsense=3", "--print"}, 2, {"nonsense"});
  check_fails({"--library", "/nonexistent.so", "true"}, 1, {"/nonexistent.so"});
  check_fails({"--library", "/a b.so", "true"}, 1, {"/a b.so", "space"});
}

TEST_CASE("hipvmm-run: variables that are wrong already are refused too") {
  CHECK(hipvmm_run({"echo", "ran"}, {"HIPVMM_CONF=nonsense=3"}).status == 2);
  CHECK(hipvmm_run({"echo", "ran"}, {"HIPVMM_PRELOAD=nonsense=3"}).status == 2);
  CHECK(hipvmm_run({"--off", "echo", "ran"}, {"HIPVMM_CONF=nonsense=3"}).out == "ran\n");
}

/// The output of a program that a shell becomes after `before`.
std::string seen(const std::string& before, const std::string& program) {
  return run("/bin/sh", {"-c", before + "; exec " + program}).out;
}

TEST_CASE("hipvmm-run: signals, descriptors and variables are the program's as they were") {
  const std::string run_by{PRELOAD_RUN_PROGRAM " "};
  for (const char* const before : {"true", "trap '' PIPE", "trap '' XFSZ CHLD", "ulimit -f 100",
                                   "exec 7</dev/null", "exec 0<&-", "exec 2>&-"}) {
    CAPTURE(before);
    for (const char* const program :
         {"grep 'Sig[BCIP]' /proc/self/status", "ls /proc/self/fd", "sh -c 'ulimit -a'"})
      CHECK(seen(before, run_by + program) == seen(before, program));
    CHECK(seen(before, run_by + "sh -c 'env | grep -v -e ^LD_PRELOAD= -e ^_= | sort'") ==
          seen(before, "sh -c 'env | grep -v -e ^LD_PRELOAD= -e ^_= | sort'"));
  }
}

TEST_CASE("hipvmm-run: a program runs without standard output, too") {
  const auto status = [](const std::string& command) {
    return run("/bin/sh", {"-c", command}).status;
  };
  const std::string asks = " sh -c '[ ! -e /proc/self/fd/1 ] && exit 5' >&-";
  CHECK(status(PRELOAD_RUN_PROGRAM + asks) == 5);
  CHECK(status(PRELOAD_RUN_PROGRAM " --print >&- 2>/dev/null") == 1);
}

TEST_CASE("hipvmm-run: it goes on where a library leaves the errno of an interrupted call") {
  const temporary_folder folder;
  for (const char* const name : {"libhipvmm_preload.so", "libhipvmm_preload_core.so"})
    std::filesystem::copy_file(PRELOAD_INTERRUPTED, folder.path() / name);
  const outcome ended = run(
      "/usr/bin/env", {"timeout", "20", PRELOAD_RUN_PROGRAM, "--library",
                       (folder.path() / "libhipvmm_preload.so").string(), "sh", "-c", "exit 3"});
  CHECK(ended.status == 3);
}

TEST_CASE("hipvmm-run: help and version") {
  CHECK(hipvmm_run({"--version"}).out.starts_with("hipvmm-run 0."));
  CHECK(contains(hipvmm_run({"--help"}).out, "--threshold SIZE"));
}

}  // namespace
}  // namespace hipvmm::test
