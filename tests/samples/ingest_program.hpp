// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/process/program.hpp"

namespace hipvmm::test {

/// Runs the built ingest as a user does.
inline outcome ingest(const std::vector<std::string>& arguments, const surroundings& given = {}) {
  return run(INGEST_PROGRAM, arguments, given);
}

/// Checks that ingest refuses with one sentence that has all of `words` in it.
inline void check_refused(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& words, int status = 1,
                          const surroundings& given = {}) {
  const outcome ended = ingest(arguments, given);
  CAPTURE(ended.err);
  CHECK(ended.status == status);
  CHECK(ended.out.empty());
  check_sentence(ended.err, "ingest: ", words);
}

}  // namespace hipvmm::test
