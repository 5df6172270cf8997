// SPDX-License-Identifier: MIT
#include "rocr_stand_in.h"

#include <algorithm>
#include <cstring>
#include <shared_mutex>
#include <string>

#include "src/base/call.hpp"
#include "src/base/fault_plan.hpp"
#include "src/base/gate.hpp"
#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"

namespace stand_in {
namespace {

bool is_gpu(int gpu) { return gpu >= 0 && static_cast<std::uint64_t>(gpu) < knobs().gpus; }

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

int rocr_stand_in_hold(int gpu) {
  if (gpu != ROCR_STAND_IN_ALL && !is_gpu(gpu)) return -1;
  hold_gpu(gpu);
  return 0;
}

int rocr_stand_in_release(int gpu) {
  if (gpu != ROCR_STAND_IN_ALL && !is_gpu(gpu)) return -1;
  release_gpu(gpu);
  return 0;
}

int rocr_stand_in_memory(int gpu, uint64_t* used, uint64_t* peak) {
  if (!is_gpu(gpu)) return -1;
  const heap& of = *gpu_agent(static_cast<std::uint64_t>(gpu)).memory;
  if (used != nullptr) *used = of.used();
  if (peak != nullptr) *peak = of.peak();
  return 0;
}

int rocr_stand_in_fail_call(const char* function, uint64_t nth, uint32_t status) {
  if (function == nullptr || (nth != 0 && status == HSA_STATUS_SUCCESS)) return -1;
  return plan_failure(function, nth, static_cast<hsa_status_t>(status)) ? 0 : -1;
}

int rocr_stand_in_calls(const char* function, uint64_t* count) {
  if (function == nullptr || count == nullptr || !is_function(function)) return -1;
  *count = calls_of(function);
  return 0;
}

int rocr_stand_in_delay(uint64_t microseconds) {
  set_delay(microseconds);
  return 0;
}

uint64_t rocr_stand_in_reports(void) { return report_count(); }

size_t rocr_stand_in_history(const void* address, char* into, size_t size) {
  const std::uint64_t at = address_of(address);
  std::string whole;
  {
    std::shared_lock guard(addresses().lock);
    whole = "Now there: " + describe_address(at) + ".";
  }
  if (const std::string before = describe_history(at, 64); !before.empty()) {
    whole += " Before: " + before + ".";
  }
  if (into != nullptr && size != 0) {
    const std::size_t copied = std::min(size - 1, whole.size());
    std::memcpy(into, whole.data(), copied);
    into[copied] = '\0';
  }
  return whole.size();
}

}  // extern "C"
