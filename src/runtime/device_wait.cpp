// SPDX-License-Identifier: MIT
#include "runtime/device_wait.hpp"

#include <atomic>

#include <hipvmm/core/error.hpp>
#include "core/hip_compat.hpp"
#include "runtime/device.hpp"
#include "runtime/device_gate.hpp"

namespace hipvmm::detail {
namespace {

enum class answer : unsigned char { open, no, yes };
std::atomic<answer> free_waits{answer::open};

bool is_waited_by_free() {
  const answer known = free_waits.load(std::memory_order_relaxed);
  return known == answer::yes ||
         (known == answer::open && hip_compat::is_cuda_version(runtime_version()));
}

}  // namespace

void set_device_wait_rules(device_wait_rules rules) noexcept {
  set_waits_count_ending_streams(rules.counts_ending_streams);
  const answer known = !rules.free_waits   ? answer::open
                       : *rules.free_waits ? answer::yes
                                           : answer::no;
  free_waits.store(known, std::memory_order_relaxed);
}

void wait_for_device(device_ref device) {
  if (!has_context(device)) return;
  if (is_waited_by_free()) {
    try {
      if (wait_by_free(device)) return;
    } catch (const hip_error&) {
      // The call below fails as well, or waits.
    }
  }
  device.synchronize();
}

}  // namespace hipvmm::detail
