// SPDX-License-Identifier: MIT
// HSA's functions for queues, and the times of their packets.
#include <bit>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/lifetime.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"
#include "src/queue/queue.hpp"
#include "src/signal/signal.hpp"

using namespace stand_in;

extern "C" {

hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                              void (*)(hsa_status_t, hsa_queue_t*, void*), void*, uint32_t,
                              uint32_t, hsa_queue_t** made) {
  ROCR_CALL();
  if (made == nullptr || size == 0 || !std::has_single_bit(size)) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  stand_in::agent* const on = agent_of(agent);
  if (on == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (!on->is_gpu) return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
  *made = (new queue(*on, size, type))->handle();
  log("queue %llu of %u packets on GPU %u", wide((*made)->id), size, on->index);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_queue_destroy(hsa_queue_t* handle) {
  ROCR_CALL();
  if (handle == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  delete queue::of(handle);
  return HSA_STATUS_SUCCESS;
}

uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t* handle) {
  ROCR_COUNT();
  return queue::of(handle)->read_index();
}

uint64_t hsa_queue_load_read_index_scacquire(const hsa_queue_t* handle) {
  ROCR_COUNT();
  return queue::of(handle)->read_index();
}

uint64_t hsa_queue_load_write_index_relaxed(const hsa_queue_t* handle) {
  ROCR_COUNT();
  return queue::of(handle)->write_index();
}

uint64_t hsa_queue_load_write_index_scacquire(const hsa_queue_t* handle) {
  ROCR_COUNT();
  return queue::of(handle)->write_index();
}

uint64_t hsa_queue_add_write_index_relaxed(const hsa_queue_t* handle, uint64_t value) {
  ROCR_COUNT();
  return queue::of(handle)->add_write_index(value);
}

uint64_t hsa_queue_add_write_index_screlease(const hsa_queue_t* handle, uint64_t value) {
  ROCR_COUNT();
  return queue::of(handle)->add_write_index(value);
}

hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t*, uint32_t, const uint32_t*) {
  ROCR_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t*, hsa_amd_queue_priority_t) {
  ROCR_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t*, int) {
  ROCR_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_async_copy_enable(bool) {
  ROCR_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t, hsa_signal_t signal,
                                                 hsa_amd_profiling_dispatch_time_t* time) {
  ROCR_CALL();
  if (time == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  time->start = signal_of(signal)->shared.start_ts;
  time->end = signal_of(signal)->shared.end_ts;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal,
                                                   hsa_amd_profiling_async_copy_time_t* time) {
  ROCR_CALL();
  if (time == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  time->start = signal_of(signal)->shared.start_ts;
  time->end = signal_of(signal)->shared.end_ts;
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
