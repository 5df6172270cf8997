// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "support/process/child_process.hpp"

namespace hipvmm::test {

/// The environment of a child that imitates `profile` and takes `findings` for true.
inline std::vector<std::string> under(const std::string& profile, const std::string& findings) {
  return {"HIPVMM_HOST_PROFILE=" + profile, "HIPVMM_CAPABILITY=assume:" + findings};
}

}  // namespace hipvmm::test
