// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipvmm::host_provider {

hipError_t& last_error() noexcept;
int& current_device() noexcept;

/// The devices whose contexts the calling thread has pushed.
struct context_stack {
  static constexpr int most = 64;
  int depth;
  int devices[most];
};
context_stack& pushed_contexts() noexcept;

/// As in a thread that has not called HIP.
void forget_thread_state() noexcept;

}  // namespace hipvmm::host_provider
