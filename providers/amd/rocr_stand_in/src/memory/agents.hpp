// SPDX-License-Identifier: MIT
// The agents of the system, one CPU and the GPUs, and their memory pools.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "src/base/heap.hpp"

namespace stand_in {

struct agent;

enum class pool_kind { fine, kernarg, coarse, extended, group };

struct pool {
  agent* owner;
  pool_kind kind;
  [[nodiscard]] hsa_amd_memory_pool_t handle() const {
    return {reinterpret_cast<std::uint64_t>(this)};
  }
};

struct agent {
  unsigned node;
  bool is_gpu;
  unsigned index;  // of the GPU, from 0
  std::vector<std::unique_ptr<pool>> pools;
  std::unique_ptr<heap> memory;
  [[nodiscard]] hsa_agent_t handle() const { return {reinterpret_cast<std::uint64_t>(this)}; }
};

/// All agents by node, the CPU first. Made at the first call, for as long as the process runs.
const std::vector<std::unique_ptr<agent>>& agents();
agent& cpu_agent();
/// The CPU, then the GPUs that ROCR_VISIBLE_DEVICES names, in its order: those that HSA enumerates.
const std::vector<agent*>& visible_agents();
agent& gpu_agent(std::uint64_t index);

/// nullptr for a handle of another owner.
agent* agent_of(hsa_agent_t handle);
pool* pool_of(hsa_amd_memory_pool_t handle);

/// "GPU-" and 16 digits.
std::string uuid_of(const agent& gpu);
/// "GPU 0 (agent node 1)" or "CPU (agent node 0)".
std::string describe(const agent& who);

}  // namespace stand_in
