// SPDX-License-Identifier: MIT
#include "base/call.hpp"

using namespace hipvmm::cuda_provider;

hipError_t hipModuleUnload(hipModule_t module) {
  return call([&](driver&) {
    require(module != nullptr, hipErrorInvalidHandle);
    check(cuModuleUnload(reinterpret_cast<CUmodule>(module)));
    return hipSuccess;
  });
}
