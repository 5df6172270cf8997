// SPDX-License-Identifier: MIT
#include "call.hpp"

#include <cstring>
#include <mutex>
#include <string>

#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

std::atomic<call_site*> first_site{nullptr};
std::atomic<bool> plan_struck{false};

struct fault_plan {
  std::mutex mutex;
  std::string function;  // empty: any
  std::uint64_t calls_left = 0;
  hipError_t error = hipSuccess;
};

// Never destroyed: calls made while the process ends must still find it.
fault_plan& current_plan() {
  static fault_plan& plan = *new fault_plan;
  return plan;
}

}  // namespace

std::atomic<bool> call_site::plan_armed_{false};

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

void call_site::plan(const char* function, std::uint64_t nth, hipError_t error) {
  fault_plan& plan = current_plan();
  const std::lock_guard lock{plan.mutex};
  plan.function = function == nullptr ? "" : function;
  plan.calls_left = nth;
  plan.error = error;
  plan_struck.store(false, std::memory_order_relaxed);
  plan_armed_.store(nth != 0, std::memory_order_release);
}

bool call_site::struck() noexcept { return plan_struck.load(std::memory_order_relaxed); }

std::optional<hipError_t> call_site::strike(const char* function) noexcept {
  fault_plan& plan = current_plan();
  const std::lock_guard lock{plan.mutex};
  if (plan.calls_left == 0) return std::nullopt;
  if (!plan.function.empty() && plan.function != function) return std::nullopt;
  if (--plan.calls_left != 0) return std::nullopt;
  plan_armed_.store(false, std::memory_order_relaxed);
  plan_struck.store(true, std::memory_order_relaxed);
  return plan.error;
}

hipError_t remember(hipError_t code) noexcept {
  if (code != hipSuccess && code != hipErrorNotReady) last_error() = code;
  return code;
}

}  // namespace hipvmm::host_provider
