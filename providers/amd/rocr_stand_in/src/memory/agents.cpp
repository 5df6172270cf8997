// SPDX-License-Identifier: MIT
#include "src/memory/agents.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

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

std::string upper(std::string of) {
  std::transform(of.begin(), of.end(), of.begin(),
                 [](unsigned char each) { return static_cast<char>(std::toupper(each)); });
  return of;
}

std::string trimmed(const std::string& of) {
  const std::size_t begin = of.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return of.substr(begin, of.find_last_not_of(" \t") - begin + 1);
}

// ROCr: RvdFilter::ProcessUuidToken. The beginning of one GPU's UUID, 5 to 20 characters of it.
agent* gpu_of_uuid(const std::string& token) {
  agent* found = nullptr;
  if (token.size() < 5 || token.size() > 20) return nullptr;
  for (const auto& each : agents()) {
    if (!each->is_gpu || upper(uuid_of(*each)).compare(0, token.size(), token) != 0) continue;
    if (found != nullptr) return nullptr;
    found = each.get();
  }
  return found;
}

// ROCr: RvdFilter::BuildUsrDeviceList. An ordinal may be octal or hexadecimal.
agent* gpu_of_token(const std::string& token) {
  if (token.empty()) return nullptr;
  if (token[0] == 'G') return gpu_of_uuid(token);
  char* end = nullptr;
  const long ordinal = std::strtol(token.c_str(), &end, 0);
  if (*end != '\0' || ordinal < 0 || static_cast<std::uint64_t>(ordinal) >= knobs().gpus) {
    return nullptr;
  }
  return &gpu_agent(static_cast<std::uint64_t>(ordinal));
}

// The first token that names no GPU, or one that was named before, ends the list.
std::vector<agent*>* find_visible() {
  auto* found = new std::vector<agent*>{&cpu_agent()};
  const char* const wanted = std::getenv("ROCR_VISIBLE_DEVICES");
  if (wanted == nullptr) {
    for (std::uint64_t each = 0; each < knobs().gpus; ++each) found->push_back(&gpu_agent(each));
    return found;
  }
  std::istringstream tokens(wanted);
  for (std::string token; std::getline(tokens, token, ',');) {
    agent* const named = gpu_of_token(upper(trimmed(token)));
    if (named == nullptr || std::find(found->begin(), found->end(), named) != found->end()) break;
    found->push_back(named);
  }
  return found;
}

}  // namespace

const std::vector<agent*>& visible_agents() {
  static const std::vector<agent*>* const all = find_visible();
  return *all;
}

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

std::string uuid_of(const agent& gpu) { return text("GPU-%016x", 0x57a2d000u + gpu.index); }

std::string describe(const agent& who) {
  return who.is_gpu ? text("GPU %u (agent node %u)", who.index, who.node) : "CPU (agent node 0)";
}

}  // namespace stand_in
