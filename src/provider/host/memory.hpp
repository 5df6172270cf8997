// SPDX-License-Identifier: MIT
#pragma once

#include "runtime.hpp"

namespace hipvmm::host_provider {

/// What hipFree does: waits for the work that may use the memory at `start`, then frees it.
/// Throws: failure with hipErrorInvalidValue unless an allocation that is not freed starts there.
void free_now(runtime& machine, address start);

}  // namespace hipvmm::host_provider
