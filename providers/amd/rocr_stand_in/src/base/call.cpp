// SPDX-License-Identifier: MIT
#include "src/base/call.hpp"

#include <cstring>

#include "src/base/fault_plan.hpp"
#include "src/base/lifetime.hpp"

namespace stand_in {
namespace {

std::atomic<call_site*> first_site{nullptr};

}  // namespace

call_site::call_site(const char* function) : function_(function) {
  next_ = first_site.load();
  while (!first_site.compare_exchange_weak(next_, this)) {
  }
}

hsa_status_t call_site::enter() {
  count();
  if (after_fork()) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  return failures_planned() ? planned_status(function_) : HSA_STATUS_SUCCESS;
}

hsa_status_t call_site::enter_open() {
  if (!runtime_open()) {
    count();
    return HSA_STATUS_ERROR_NOT_INITIALIZED;
  }
  return enter();
}

std::uint64_t calls_of(const char* function) {
  std::uint64_t calls = 0;
  for (call_site* each = first_site.load(); each != nullptr; each = each->next_) {
    if (std::strcmp(each->function_, function) == 0) calls += each->calls_.load();
  }
  return calls;
}

}  // namespace stand_in
