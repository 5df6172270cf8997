// SPDX-License-Identifier: MIT
#include "base/fault_plan.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <utility>

namespace hipvmm::host_provider {

fault_plan::fault_plan() { replace({}); }

fault_plan& fault_plan::get() {
  static fault_plan& only = *new fault_plan;
  return only;
}

void fault_plan::replace(fault_settings planned) {
  const std::lock_guard lock{mutex_};
  rules_.swap(planned.rules);
  device_bytes_.store(planned.device_bytes, std::memory_order_relaxed);
  chunks_.store(planned.chunks, std::memory_order_relaxed);
  unseen_.store(planned.unseen.count(), std::memory_order_relaxed);
  incoherent_aliases_.store(planned.incoherent_aliases, std::memory_order_relaxed);
  ignored_hints_.store(planned.ignored_hints, std::memory_order_relaxed);
  arm();
}

void fault_plan::fail_call(const char* function, std::uint64_t nth, hipError_t error) {
  fault_rule next;
  next.function = function == nullptr ? "" : function;
  next.nth = nth;
  next.error = error;
  const std::lock_guard lock{mutex_};
  std::swap(call_, next);
  if (nth != 0) struck_.store(false, std::memory_order_relaxed);
  arm();
}

void fault_plan::arm() noexcept {
  armed_.store(call_.nth != 0 || !rules_.empty(), std::memory_order_release);
}

std::optional<hipError_t> fault_plan::strike_armed(const char* function) noexcept {
  std::optional<hipError_t> error;
  std::chrono::nanoseconds delay{0};
  std::optional<pid_t> victim;
  bool aborts = false;
  {
    const std::lock_guard lock{mutex_};
    if (call_.nth != 0 && call_.strikes(function)) {
      error = call_.error;
      call_.nth = 0;
      struck_.store(true, std::memory_order_relaxed);
      arm();
    }
    for (fault_rule& each : rules_) {
      if (!each.strikes(function)) continue;
      delay += each.delay;
      if (each.victim) victim = each.victim;
      aborts |= each.aborts;
      if (!error) error = each.error;
    }
  }
  if (aborts) std::abort();
  if (victim) ::kill(*victim == 0 ? ::getpid() : *victim, SIGKILL);
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  return error;
}

}  // namespace hipvmm::host_provider
