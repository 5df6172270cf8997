// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include <hipvmm/ipc/ranks/rank_error.hpp>

namespace hipvmm::contract {

/// Checks that `call` throws a rank_error for this reason, and if `rank` is given about that one.
/// Returns its text. A rank that runs in a thread cannot end its case: so no REQUIRE.
template <typename Call>
std::string check_rank_error(rank_failure reason, std::optional<int> rank, Call call) {
  try {
    call();
  } catch (const rank_error& error) {
    CHECK(error.reason() == reason);
    if (rank) CHECK(error.rank() == *rank);
    return error.what();
  }
  FAIL_CHECK("no rank_error");
  return {};
}

}  // namespace hipvmm::contract
