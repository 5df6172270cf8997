// SPDX-License-Identifier: MIT
#include "base/call.hpp"

namespace hipvmm::cuda_provider {

hipError_t remember(hipError_t code) noexcept {
  if (code != hipSuccess && code != hipErrorNotReady) last_error() = code;
  return code;
}

driver& ready_driver() {
  driver& machine = driver::get();
  check(machine.status());
  return machine;
}

driver& driver_with_device() {
  driver& machine = ready_driver();
  require(machine.device_count() != 0, hipErrorNoDevice);
  return machine;
}

}  // namespace hipvmm::cuda_provider
