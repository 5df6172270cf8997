// SPDX-License-Identifier: MIT
// Copies by engines, and the status of engines.
#include <algorithm>
#include <bit>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/knobs.hpp"
#include "src/base/text.hpp"
#include "src/memory/agents.hpp"
#include "src/queue/copy_engine.hpp"

namespace stand_in {
namespace {

struct copy_request {
  void* to;
  hsa_agent_t to_agent;
  const void* from;
  hsa_agent_t from_agent;
  std::size_t bytes;
  std::uint32_t after_count;
  const hsa_signal_t* after;
  hsa_signal_t done;
};

constexpr int any_engine = -1;

// ROCr: Runtime::CopyMemory takes the source's agent if that is a GPU.
agent& working_agent(agent& to, agent& from) {
  if (from.is_gpu && to.is_gpu) return knobs().copy_by_source ? from : to;
  return from.is_gpu ? from : to;
}

unsigned default_engine(const agent& to, const agent& from) {
  if (to.is_gpu && from.is_gpu) return engine_between_devices;
  if (from.is_gpu) return engine_to_host;
  return to.is_gpu ? engine_to_device : engine_other;
}

// An agent with one engine uses it for all.
unsigned engine_bit(unsigned number) {
  return 1u << std::min<std::uint64_t>(number, knobs().engines - 1);
}

hsa_status_t start_copy(const copy_request& asked, int engine) {
  agent* const to = agent_of(asked.to_agent);
  agent* const from = agent_of(asked.from_agent);
  if (asked.to == nullptr || asked.from == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if ((asked.after_count == 0) != (asked.after == nullptr)) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  if (to == nullptr || from == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (asked.done.handle == 0) return HSA_STATUS_ERROR_INVALID_SIGNAL;
  agent& who = working_agent(*to, *from);
  const std::uint64_t to_address = address_of(asked.to);
  const std::uint64_t from_address = address_of(asked.from);
  const std::size_t bytes = asked.bytes;
  copy_job job;
  job.after.assign(asked.after, asked.after + asked.after_count);
  job.done = asked.done;
  job.who = &who;
  job.name = "copy";
  job.ranges = {{"source", from_address, bytes}, {"destination", to_address, bytes}};
  job.work = [=](const device_view& memory) { memory.copy(to_address, from_address, bytes); };
  const unsigned number = engine == any_engine ? default_engine(*to, *from) : unsigned(engine);
  engine_of(who.is_gpu ? who : gpu_agent(0), number).push(std::move(job));
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t dst_agent, const void* src,
                                       hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
                                       const hsa_signal_t* dep_signals,
                                       hsa_signal_t completion_signal) {
  ROCR_CALL();
  return start_copy(
      {dst, dst_agent, src, src_agent, size, num_dep_signals, dep_signals, completion_signal},
      any_engine);
}

hsa_status_t hsa_amd_memory_async_copy_on_engine(void* dst, hsa_agent_t dst_agent, const void* src,
                                                 hsa_agent_t src_agent, size_t size,
                                                 uint32_t num_dep_signals,
                                                 const hsa_signal_t* dep_signals,
                                                 hsa_signal_t completion_signal,
                                                 hsa_amd_sdma_engine_id_t engine_id, bool) {
  ROCR_CALL();
  const auto mask = static_cast<unsigned>(engine_id);
  if (!std::has_single_bit(mask)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return start_copy(
      {dst, dst_agent, src, src_agent, size, num_dep_signals, dep_signals, completion_signal},
      std::countr_zero(mask));
}

hsa_status_t hsa_amd_memory_copy_engine_status(hsa_agent_t dst_agent, hsa_agent_t src_agent,
                                               uint32_t* engine_ids_mask) {
  ROCR_CALL();
  const agent* const to = agent_of(dst_agent);
  const agent* const from = agent_of(src_agent);
  if (to == nullptr || from == nullptr || to == from) return HSA_STATUS_ERROR_INVALID_AGENT;
  *engine_ids_mask = engine_bit(from->is_gpu ? engine_to_host : engine_to_device);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_get_preferred_copy_engine(hsa_agent_t dst_agent, hsa_agent_t src_agent,
                                                      uint32_t* recommended_ids_mask) {
  ROCR_CALL();
  if (agent_of(dst_agent) == nullptr || agent_of(src_agent) == nullptr) {
    return HSA_STATUS_ERROR_INVALID_AGENT;
  }
  *recommended_ids_mask = engine_bit(engine_to_host) | engine_bit(engine_to_device);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_async_copy_rect(
    const hsa_pitched_ptr_t* dst, const hsa_dim3_t* dst_offset, const hsa_pitched_ptr_t* src,
    const hsa_dim3_t* src_offset, const hsa_dim3_t* range, hsa_agent_t copy_agent,
    hsa_amd_copy_direction_t, uint32_t num_dep_signals, const hsa_signal_t* dep_signals,
    hsa_signal_t completion_signal) {
  ROCR_CALL();
  if (dst == nullptr || src == nullptr || dst_offset == nullptr || src_offset == nullptr ||
      range == nullptr) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  agent* const who = agent_of(copy_agent);
  if (who == nullptr || !who->is_gpu) return HSA_STATUS_ERROR_INVALID_AGENT;
  const auto start = [](const hsa_pitched_ptr_t& at, const hsa_dim3_t& offset) {
    return address_of(at.base) + offset.x + offset.y * at.pitch + offset.z * at.slice;
  };
  const std::uint64_t to = start(*dst, *dst_offset);
  const std::uint64_t from = start(*src, *src_offset);
  copy_job job;
  if (num_dep_signals != 0) job.after.assign(dep_signals, dep_signals + num_dep_signals);
  job.done = completion_signal;
  job.who = who;
  job.name = "copy of rows";
  const hsa_dim3_t size = *range;
  const hsa_pitched_ptr_t to_layout = *dst;
  const hsa_pitched_ptr_t from_layout = *src;
  for (std::uint32_t z = 0; z < size.z; ++z) {
    for (std::uint32_t y = 0; y < size.y; ++y) {
      job.ranges.push_back(
          {"source row", from + y * from_layout.pitch + z * from_layout.slice, size.x});
      job.ranges.push_back(
          {"destination row", to + y * to_layout.pitch + z * to_layout.slice, size.x});
    }
  }
  job.work = [rows = job.ranges](const device_view& memory) {
    for (std::size_t i = 0; i + 1 < rows.size(); i += 2) {
      memory.copy(rows[i + 1].address, rows[i].address, rows[i].bytes);
    }
  };
  engine_of(*who, engine_between_devices).push(std::move(job));
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
