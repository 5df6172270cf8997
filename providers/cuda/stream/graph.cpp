// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "base/cuda_compat.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::cuda_provider {
namespace {

constexpr unsigned long long node_priority = 8;  // that headers before 6.x have no name for
constexpr unsigned long long instantiate_flags =
    hipGraphInstantiateFlagAutoFreeOnLaunch | node_priority;

cuuint64_t graph_flags_for_cuda(unsigned long long flags) {
  require((flags & ~instantiate_flags) == 0);
  cuuint64_t wanted = 0;
  if ((flags & hipGraphInstantiateFlagAutoFreeOnLaunch) != 0) {
    wanted |= CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  }
  if ((flags & node_priority) != 0) wanted |= CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  return wanted;
}

// HIP's header numbers the types from 1 up to 5.2 and from 0 later.
int type_to_hip(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return hipGraphNodeTypeKernel;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return hipGraphNodeTypeMemcpy;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return hipGraphNodeTypeMemset;
    case CU_GRAPH_NODE_TYPE_HOST:
      return hipGraphNodeTypeHost;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return hipGraphNodeTypeGraph;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return hipGraphNodeTypeEmpty;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return hipGraphNodeTypeWaitEvent;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return hipGraphNodeTypeEventRecord;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return hip_compat::graph_node_type_mem_alloc;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return hip_compat::graph_node_type_mem_free;
    default:
      throw failure{hipErrorNotSupported};
  }
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipGraphCreate(hipGraph_t* made, unsigned int flags) {
  return call([&](driver&) {
    require(made != nullptr && flags == 0);
    CUgraph empty = nullptr;
    check(cuGraphCreate(&empty, 0));
    *made = to_hip(empty);
    return hipSuccess;
  });
}

hipError_t hipGraphDestroy(hipGraph_t leaving) {
  return call_anywhere([&](driver&) {
    require(leaving != nullptr);
    check(cuGraphDestroy(to_cuda(leaving)));
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t source, hipGraphNode_t* error_node,
                               char* log, size_t log_bytes) {
  return call([&](driver&) {
    require(exec != nullptr && source != nullptr);
    CUgraphExec made = nullptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS wanted{};
    const CUresult result = cuGraphInstantiateWithParams(&made, to_cuda(source), &wanted);
    if (error_node != nullptr) *error_node = to_hip(wanted.hErrNode_out);
    if (log != nullptr && log_bytes != 0) *log = '\0';  // the driver writes no log any more
    check(result);
    *exec = to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t source,
                                        unsigned long long flags) {
  return call([&](driver&) {
    require(exec != nullptr && source != nullptr);
    CUgraphExec made = nullptr;
    check(cuGraphInstantiateWithFlags(&made, to_cuda(source), graph_flags_for_cuda(flags)));
    *exec = to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  return call_anywhere([&](driver&) {
    require(exec != nullptr);
    check(cuGraphExecDestroy(to_cuda(exec)));
    return hipSuccess;
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    require(exec != nullptr);
    check(cuGraphLaunch(to_cuda(exec), to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipGraphGetNodes(hipGraph_t asked, hipGraphNode_t* nodes, size_t* count) {
  return call([&](driver&) {
    require(asked != nullptr && count != nullptr);
    check(cuGraphGetNodes(to_cuda(asked), to_cuda(nodes), count));
    return hipSuccess;
  });
}

hipError_t hipGraphGetRootNodes(hipGraph_t asked, hipGraphNode_t* nodes, size_t* count) {
  return call([&](driver&) {
    require(asked != nullptr && count != nullptr);
    check(cuGraphGetRootNodes(to_cuda(asked), to_cuda(nodes), count));
    return hipSuccess;
  });
}

hipError_t hipGraphGetEdges(hipGraph_t asked, hipGraphNode_t* from, hipGraphNode_t* to,
                            size_t* count) {
  return call([&](driver&) {
    require(asked != nullptr && count != nullptr && (from == nullptr) == (to == nullptr));
    check(cuda_compat::get_edges(to_cuda(asked), to_cuda(from), to_cuda(to), *count));
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* type) {
  return call([&](driver&) {
    require(node != nullptr && type != nullptr);
    CUgraphNodeType found = CU_GRAPH_NODE_TYPE_EMPTY;
    check(cuGraphNodeGetType(to_cuda(node), &found));
    *type = static_cast<hipGraphNodeType>(type_to_hip(found));
    return hipSuccess;
  });
}
