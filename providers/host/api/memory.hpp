// SPDX-License-Identifier: MIT
#pragma once

#include "machine/runtime.hpp"

namespace hipvmm::host_provider {

/// What hipFree does: waits for the work that may use the memory at `start`, then frees it.
/// Throws: failure with hipErrorInvalidValue unless an allocation that is not freed starts there.
void free_now(runtime& machine, address start);

/// The stream that an allocation, a free or a prefetch names. Throws: failure with `code` where
/// there is none, or crash as the profile says.
std::shared_ptr<stream_queue> stream_of_memory(runtime& machine, hipStream_t stream,
                                               hipError_t code);

}  // namespace hipvmm::host_provider
