// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/process/program.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {

/// Runs the built hipvmm-replay as a user does.
inline outcome replay_program(const std::vector<std::string>& arguments,
                              const surroundings& given = {}) {
  return run(REPLAY_PROGRAM, arguments, given);
}

inline const std::string small_trace = trace_header +
                                       "0,0,allocate,a,1048576,1\n"
                                       "0,1000,allocate,b,3000000,2\n"
                                       "0,2000,free,a,1048576,1\n"
                                       "0,3000000,free,b,3000000,2\n";

/// Checks that a run ends with `status` and, on standard error, one sentence with all of `words`.
inline void check_fails(const outcome& ended, int status, const std::vector<std::string>& words) {
  CAPTURE(ended.err);
  CHECK(ended.status == status);
  check_sentence(ended.err, "hipvmm-replay: ", words);
}

}  // namespace hipvmm::test
