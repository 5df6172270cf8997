// SPDX-License-Identifier: MIT
#include "machine/call.hpp"

#include <cstring>

#include "base/thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

std::atomic<call_site*> first_site{nullptr};

}  // namespace

call_site::call_site(const char* function) noexcept
    : function_{function}, next_{first_site.load(std::memory_order_relaxed)} {
  while (!first_site.compare_exchange_weak(next_, this, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
}

std::uint64_t call_site::count(const char* function) noexcept {
  std::uint64_t calls = 0;
  for (const call_site* site = first_site.load(std::memory_order_acquire); site != nullptr;
       site = site->next_) {
    if (function == nullptr || std::strcmp(function, site->function_) == 0) {
      calls += site->calls_.load(std::memory_order_relaxed);
    }
  }
  return calls;
}

hipError_t remember(hipError_t code) noexcept {
  if (code == last_error()) return code;
  const bool failed = code != hipSuccess && code != hipErrorNotReady;
  if (failed || runtime::get().rules().last_error == last_error_rule::is_of_last_call)
    last_error() = code;
  return code;
}

}  // namespace hipvmm::host_provider
