// SPDX-License-Identifier: MIT
#include "core/owner_process.hpp"

#include <pthread.h>

#include <hipvmm/core/error.hpp>

namespace hipvmm::detail {

constinit std::atomic<unsigned> process_number{1};

namespace {

// Registered before any object has a mark.
[[maybe_unused]] const int registered = ::pthread_atfork(
    nullptr, nullptr, [] { process_number.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

void refuse_in_child() {
  throw unsupported{
      "a child of fork() cannot use objects of its parent: start a new program instead, or "
      "fork before the first call of HIP"};
}

}  // namespace hipvmm::detail
