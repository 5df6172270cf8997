// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "support/host/host_profile.hpp"
#include "support/process/child_process.hpp"

namespace hipvmm::test {

/// Whether this process imitates `profile` and takes `findings` for true. If not, a child that does
/// runs `test_case`, this very case, which ends here. Its name has no comma, which would end it.
inline bool is_under(std::string_view profile, const std::string& findings,
                     const std::string& test_case) {
  const std::string assumption = "assume:" + findings;
  const char* const assumed = std::getenv("HIPVMM_CAPABILITY");
  if (host_profile() == profile && assumed != nullptr && assumed == assumption) return true;
  const child_result child = run_case_in_child(
      test_case,
      {"HIPVMM_HOST_PROFILE=" + std::string{profile}, "HIPVMM_CAPABILITY=" + assumption});
  CHECK_MESSAGE(passed(child), child.output);
  return false;
}

}  // namespace hipvmm::test
