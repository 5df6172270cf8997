// SPDX-License-Identifier: MIT
#include "runtime/runtime_rules.hpp"

#include <hip/hip_runtime_api.h>

#include "core/check.hpp"

namespace hipvmm::detail {

int runtime_version() {
  int version = 0;
  check(hipRuntimeGetVersion(&version), "hipRuntimeGetVersion");
  return version;
}

const runtime_rules& rules_of_runtime() {
  static const runtime_rules rules{runtime_version()};
  return rules;
}

}  // namespace hipvmm::detail
