// SPDX-License-Identifier: MIT
// hipvmm-replay if the host provider lets it fail, or shows it a terminal that is slow to fill.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "tool/replay_program.hpp"

namespace hipvmm::test {

TEST_CASE("hipvmm-replay: a device that is too small fails with the rows that found it so") {
  const temporary_file trace{small_trace, ".csv"};
  const surroundings given{.environment = {"HIPVMM_HOST_MEMORY=2MiB"}};
  const outcome ended = replay_program({trace.path(), "--resource", "hip"}, given);
  check_fails(ended, 1, {"1 failure, listed above"});
  CHECK(ended.out.find("failures    1\n            row 3: out of device memory") !=
        std::string::npos);
  CHECK(ended.err.find("row 3") == std::string::npos);
  const outcome json = replay_program({trace.path(), "--resource", "hip", "--json", "-"}, given);
  check_fails(json, 1, {"1 failure, the first: row 3: out of device memory"});
}

TEST_CASE("hipvmm-replay: a HIP call that fails ends it with the row") {
  const temporary_file trace{small_trace, ".csv"};
  const surroundings given{
      .environment = {"HIPVMM_HOST_FAULTS=hipMemsetD32Async error=hipErrorUnknown"}};
  check_fails(replay_program({trace.path(), "--resource", "hip", "--check"}, given), 1,
              {"row 2 of the trace", "hipMemsetD32Async failed"});
}

TEST_CASE("hipvmm-replay: shows on a terminal how far it is, and wipes that") {
  std::mt19937 generator{1};
  const temporary_file trace{trace_header + random_rows(generator, 1000, 2), ".csv"};
  const surroundings given{.terminal_errors = true};
  const outcome ended = replay_program({trace.path(), "--resource", "hip"}, given);
  CHECK(ended.status == 0);
  CHECK(ended.err.find("of 1000 events") != std::string::npos);
  CHECK(ended.err.ends_with("\r\033[K"));
}

TEST_CASE("hipvmm-replay: without a device it says so") {
  const surroundings given{.environment = {"HIPVMM_HOST_DEVICES=0", "HIPVMM_HOST_PEERS=none"}};
  check_fails(replay_program({}, given), 1, {"no HIP device"});
}

}  // namespace hipvmm::test
