// SPDX-License-Identifier: MIT
// HSA's functions for signals.
#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/clock.hpp"
#include "src/base/lifetime.hpp"
#include "src/queue/queue.hpp"
#include "src/signal/signal_handlers.hpp"
#include "src/signal/signal_wait.hpp"

namespace stand_in {
namespace {

void store_signal(hsa_signal_t handle, hsa_signal_value_t value) {
  amd_signal_t& shared = signal_of(handle)->shared;
  __atomic_store_n(&shared.value, value, __ATOMIC_SEQ_CST);
  if (shared.kind == AMD_SIGNAL_KIND_DOORBELL) {
    queue::of_doorbell(handle)->ring();
  } else {
    signal_changed(handle);
  }
}

hsa_signal_value_t wait(hsa_signal_t handle, hsa_signal_condition_t condition,
                        hsa_signal_value_t compare, std::uint64_t timeout) {
  // The parent's threads would complete it, and are missing here.
  if (after_fork()) return 0;
  const std::uint64_t start = now();
  const std::uint64_t deadline = timeout > ~std::uint64_t{0} - start ? 0 : start + timeout;
  // Returns the value that met the condition, not a later one, because signals are reused.
  std::int64_t seen = 0;
  const auto ready = [&] {
    seen = load_signal(handle);
    return condition_holds(condition, seen, compare);
  };
  wait_for_signal(handle, ready, deadline, nullptr);
  return seen;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t, const hsa_agent_t*,
                               hsa_signal_t* signal) {
  ROCR_CALL();
  if (signal == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *signal = create_signal(initial_value);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t, const hsa_agent_t*,
                                   uint64_t, hsa_signal_t* signal) {
  ROCR_CALL();
  if (signal == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *signal = create_signal(initial_value);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  ROCR_CALL();
  if (signal.handle == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (signal_of(signal)->shared.kind == AMD_SIGNAL_KIND_INVALID) {
    return HSA_STATUS_ERROR_INVALID_SIGNAL;
  }
  remove_handlers(signal);
  destroy_signal(signal);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t signal,
                                          volatile hsa_signal_value_t** value_ptr) {
  ROCR_CALL();
  if (value_ptr == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  signal_of(signal)->pointer_taken = true;
  *value_ptr = &signal_of(signal)->shared.value;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t cond,
                                          hsa_signal_value_t value, hsa_amd_signal_handler handler,
                                          void* arg) {
  ROCR_CALL();
  if (handler == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  add_handler(signal, cond, value, handler, arg);
  return HSA_STATUS_SUCCESS;
}

hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) {
  ROCR_COUNT();
  return load_signal(signal);
}

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal) {
  ROCR_COUNT();
  return load_signal(signal);
}

void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  ROCR_COUNT();
  store_signal(signal, value);
}

void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  ROCR_COUNT();
  store_signal(signal, value);
}

// HSA allows, but does not require, that this wakes a waiting thread.
void hsa_signal_silent_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  ROCR_COUNT();
  store_signal(signal, value);
}

void hsa_signal_silent_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  ROCR_COUNT();
  store_signal(signal, value);
}

void hsa_signal_add_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  ROCR_COUNT();
  __atomic_fetch_add(&signal_of(signal)->shared.value, value, __ATOMIC_SEQ_CST);
  signal_changed(signal);
}

void hsa_signal_subtract_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  ROCR_COUNT();
  __atomic_fetch_sub(&signal_of(signal)->shared.value, value, __ATOMIC_SEQ_CST);
  signal_changed(signal);
}

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                             hsa_signal_value_t compare_value,
                                             uint64_t timeout_hint, hsa_wait_state_t) {
  ROCR_COUNT();
  return wait(signal, condition, compare_value, timeout_hint);
}

hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                           hsa_wait_state_t) {
  ROCR_COUNT();
  return wait(signal, condition, compare_value, timeout_hint);
}

}  // extern "C"
