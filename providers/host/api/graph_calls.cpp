// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "graph/capture.hpp"
#include "graph/graph.hpp"
#include "machine/call.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr unsigned long long node_priority = 8;  // that headers before 6.x have no name for
constexpr unsigned long long instantiate_flags =
    hipGraphInstantiateFlagAutoFreeOnLaunch | node_priority;

std::shared_ptr<graph> graph_of(runtime& machine, hipGraph_t handle) {
  std::shared_ptr<graph> found = machine.graphs().graphs.find(from_handle(handle));
  require(found != nullptr);
  return found;
}

hipError_t instantiate(runtime& machine, hipGraphExec_t* exec, hipGraph_t source,
                       unsigned long long flags) {
  require(exec != nullptr && (flags & ~instantiate_flags) == 0);
  *exec = to_handle<hipGraphExec_t>(
      machine.graphs().execs.insert(graph_of(machine, source)->instantiate(flags)));
  return hipSuccess;
}

// Unused places of `room` become null.
void write(const std::vector<hipGraphNode_t>& found, hipGraphNode_t* room, std::size_t count) {
  const std::size_t written = std::min(count, found.size());
  std::copy_n(found.begin(), written, room);
  std::fill(room + written, room + count, nullptr);
}

hipError_t list(const std::vector<hipGraphNode_t>& found, hipGraphNode_t* nodes,
                std::size_t* count) {
  if (nodes == nullptr) {
    *count = found.size();
  } else {
    write(found, nodes, *count);
    *count = std::min(*count, found.size());
  }
  return hipSuccess;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipGraphCreate(hipGraph_t* made, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(made != nullptr && flags == 0);
    *made = to_handle<hipGraph_t>(machine.graphs().graphs.insert(
        std::make_shared<graph>(machine.graphs(), graph::state::complete)));
    return hipSuccess;
  });
}

hipError_t hipGraphDestroy(hipGraph_t leaving) {
  return call(__func__, [&](runtime& machine) {
    require(!graph_of(machine, leaving)->is_recording());
    require(machine.graphs().graphs.extract(from_handle(leaving)) != nullptr);
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t source, hipGraphNode_t* error_node,
                               char* log, size_t log_bytes) {
  return call(__func__, [&](runtime& machine) {
    const hipError_t result = instantiate(machine, exec, source, 0);
    // A node of a captured graph cannot be at fault.
    if (error_node != nullptr) *error_node = nullptr;
    if (log != nullptr && log_bytes != 0) *log = '\0';
    return result;
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t source,
                                        unsigned long long flags) {
  return call(__func__,
              [&](runtime& machine) { return instantiate(machine, exec, source, flags); });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  return call(__func__, [&](runtime& machine) {
    require(machine.graphs().execs.extract(from_handle(exec)) != nullptr);
    return hipSuccess;
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<graph_exec> launched = machine.graphs().execs.find(from_handle(exec));
    require(launched != nullptr);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    machine.captures().refuse_unrecorded(*queue);
    return launched->launch(machine, *queue);
  });
}

hipError_t hipGraphGetNodes(hipGraph_t asked, hipGraphNode_t* nodes, size_t* count) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<graph> found = graph_of(machine, asked);
    require(count != nullptr);
    std::vector<hipGraphNode_t> all;
    for (const graph_node* each : found->nodes()) all.push_back(each->handle);
    return list(all, nodes, count);
  });
}

hipError_t hipGraphGetRootNodes(hipGraph_t asked, hipGraphNode_t* nodes, size_t* count) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<graph> found = graph_of(machine, asked);
    require(count != nullptr);
    std::vector<hipGraphNode_t> roots;
    for (const graph_node* each : found->nodes()) {
      if (each->after.empty()) roots.push_back(each->handle);
    }
    return list(roots, nodes, count);
  });
}

hipError_t hipGraphGetEdges(hipGraph_t asked, hipGraphNode_t* from, hipGraphNode_t* to,
                            size_t* count) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<graph> found = graph_of(machine, asked);
    require(count != nullptr && (from == nullptr) == (to == nullptr));
    std::vector<hipGraphNode_t> starts;
    std::vector<hipGraphNode_t> ends;
    for (const graph_node* each : found->nodes()) {
      for (const graph_node* earlier : each->after) {
        starts.push_back(earlier->handle);
        ends.push_back(each->handle);
      }
    }
    if (from != nullptr) write(starts, from, *count);
    return list(ends, to, count);
  });
}

hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* type) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<const graph_node> found = machine.graphs().nodes.find(from_handle(node));
    require(found != nullptr && type != nullptr);
    *type = static_cast<hipGraphNodeType>(found->form.node_type);
    return hipSuccess;
  });
}
