// SPDX-License-Identifier: MIT
#include "src/memory/agents.hpp"

#include <unistd.h>

#include "src/base/knobs.hpp"
#include "src/base/text.hpp"

namespace stand_in {
namespace {

using agent_list = std::vector<std::unique_ptr<agent>>;

std::unique_ptr<agent> make_agent(unsigned node, std::initializer_list<pool_kind> kinds,
                                  std::uint64_t bytes) {
  auto made = std::make_unique<agent>();
  made->node = node;
  made->is_gpu = node != 0;
  made->index = node == 0 ? 0 : node - 1;
  for (const pool_kind kind : kinds) {
    made->pools.push_back(std::make_unique<pool>(pool{made.get(), kind}));
  }
  made->memory = std::make_unique<heap>(node, bytes);
  return made;
}

agent_list* make_agents() {
  auto* made = new agent_list;
  const std::uint64_t host_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  made->push_back(
      make_agent(0, {pool_kind::fine, pool_kind::kernarg, pool_kind::coarse}, host_bytes));
  for (unsigned node = 1; node <= knobs().gpus; ++node) {
    made->push_back(make_agent(
        node, {pool_kind::coarse, pool_kind::extended, pool_kind::fine, pool_kind::group},
        knobs().memory));
  }
  return made;
}

}  // namespace

const agent_list& agents() {
  static const agent_list* const all = make_agents();
  return *all;
}

agent& cpu_agent() { return *agents().front(); }

agent& gpu_agent(std::uint64_t index) { return *agents()[index + 1]; }

agent* agent_of(hsa_agent_t handle) {
  for (const auto& each : agents()) {
    if (each->handle().handle == handle.handle) return each.get();
  }
  return nullptr;
}

pool* pool_of(hsa_amd_memory_pool_t handle) {
  for (const auto& each : agents()) {
    for (const auto& one : each->pools) {
      if (one->handle().handle == handle.handle) return one.get();
    }
  }
  return nullptr;
}

std::string describe(const agent& who) {
  return who.is_gpu ? text("GPU %u (agent node %u)", who.index, who.node) : "CPU (agent node 0)";
}

}  // namespace stand_in
