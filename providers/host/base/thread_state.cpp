// SPDX-License-Identifier: MIT
#include "base/thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

// Trivial, so that they can be used until the very end of the thread.
thread_local hipError_t thread_last_error = hipSuccess;
thread_local int thread_device = 0;
thread_local context_stack thread_contexts{};

}  // namespace

hipError_t& last_error() noexcept { return thread_last_error; }
int& current_device() noexcept { return thread_device; }
context_stack& pushed_contexts() noexcept { return thread_contexts; }

void forget_thread_state() noexcept {
  thread_last_error = hipSuccess;
  thread_device = 0;
  thread_contexts.depth = 0;
}

}  // namespace hipvmm::host_provider
