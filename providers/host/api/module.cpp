// SPDX-License-Identifier: MIT
#include "machine/call.hpp"

using namespace hipvmm::host_provider;

// There is no call that loads a module, so nothing is one.
hipError_t hipModuleUnload(hipModule_t) {
  return call(__func__, [](runtime&) { return hipErrorInvalidHandle; });
}
