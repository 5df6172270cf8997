// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "capture_fixtures.hpp"
#include "core/hip_compat.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

int type_of(hipGraphNode_t node) {
  hipGraphNodeType type{};
  REQUIRE(hipGraphNodeGetType(node, &type) == hipSuccess);
  return static_cast<int>(type);
}

}  // namespace

WORK_CASE("graph: arguments outside the rules are refused") {
  hipGraph_t made = nullptr;
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphNodeType type{};
  size_t count = 1;
  REQUIRE(hipGraphCreate(&made, 0) == hipSuccess);
  const auto gone = as_handle<hipGraph_t>(1);
  const auto gone_exec = as_handle<hipGraphExec_t>(1);
  const auto gone_stream = as_handle<hipStream_t>(64);
  check_refusals({
      {"destroy none", hipGraphDestroy(gone)},
      {"instantiate null", hipGraphInstantiate(nullptr, made, nullptr, nullptr, 0)},
      {"instantiate none", hipGraphInstantiate(&exec, gone, nullptr, nullptr, 0)},
      {"upload while instantiating", hipGraphInstantiateWithFlags(&exec, made, 2)},
      {"launch by a device", hipGraphInstantiateWithFlags(&exec, made, 4)},
      {"destroy no instance", hipGraphExecDestroy(gone_exec)},
      {"launch none", hipGraphLaunch(gone_exec, work.get())},
      {"nodes of none", hipGraphGetNodes(gone, &node, &count)},
      {"roots of none", hipGraphGetRootNodes(gone, &node, &count)},
      {"edges of none", hipGraphGetEdges(gone, &node, &node, &count)},
      {"edges without a count", hipGraphGetEdges(made, &node, &node, nullptr)},
      {"edges from nowhere", hipGraphGetEdges(made, nullptr, &node, &count)},
      {"type of none", hipGraphNodeGetType(as_handle<hipGraphNode_t>(1), &type)},
  });
  const instance empty{made, 8};
  CHECK(hipGraphLaunch(empty.get(), gone_stream) == hipErrorInvalidHandle);
  CHECK(hipGraphDestroy(made) == hipSuccess);
  CHECK(hipGraphDestroy(made) == hipErrorInvalidValue);
}

TIDY_CASE("graph: counters follow graphs and executable graphs") {
  const hipvmm_host_counters before = live_objects();
  const stream work;
  begin_capture(work.get());
  CHECK(live_objects().graphs == before.graphs + 1);
  const recorded_graph graph{end_capture(work.get())};
  const instance first{graph.get()};
  const instance second{graph.get()};
  CHECK(live_objects().graphs == before.graphs + 1);
  CHECK(live_objects().graph_execs == before.graph_execs + 2);
}

WORK_CASE("graph: nodes, roots and edges fill the room there is, and null the rest") {
  begin_capture(work.get());
  for (int i = 0; i < 3; ++i) add_node(work.get());
  const recorded_graph graph{end_capture(work.get())};
  const std::vector<hipGraphNode_t> all = graph.nodes();
  REQUIRE(all.size() == 3);
  const auto filler = as_handle<hipGraphNode_t>(1);

  std::vector<hipGraphNode_t> found(5, filler);
  size_t count = 2;
  CHECK(hipGraphGetNodes(graph.get(), found.data(), &count) == hipSuccess);
  CHECK(count == 2);
  CHECK(found == std::vector{all[0], all[1], filler, filler, filler});
  count = 4;
  CHECK(hipGraphGetNodes(graph.get(), found.data(), &count) == hipSuccess);
  CHECK(count == 3);
  CHECK(found == std::vector<hipGraphNode_t>{all[0], all[1], all[2], nullptr, filler});

  found.assign(2, filler);
  count = 2;
  CHECK(hipGraphGetRootNodes(graph.get(), found.data(), &count) == hipSuccess);
  CHECK(count == 1);
  CHECK(found == std::vector<hipGraphNode_t>{all[0], nullptr});

  found.assign(3, filler);
  std::vector<hipGraphNode_t> ends(3, filler);
  count = 3;
  CHECK(hipGraphGetEdges(graph.get(), found.data(), ends.data(), &count) == hipSuccess);
  CHECK(count == 2);
  CHECK(found == std::vector<hipGraphNode_t>{all[0], all[1], nullptr});
  CHECK(ends == std::vector<hipGraphNode_t>{all[1], all[2], nullptr});
}

WORK_CASE("graph: every kind of work has a node of its type") {
  const event mark;
  const allocation device{64};
  const pinned host{64};
  void* block = nullptr;
  begin_capture(work.get());
  REQUIRE(hipMallocAsync(&block, 64, work.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(device.at(), host.at(), 64, hipMemcpyDefault, work.get()) == hipSuccess);
  REQUIRE(hipMemcpyPeerAsync(device.at(), 0, host.at(), 0, 64, work.get()) == hipSuccess);
  REQUIRE(hipMemsetAsync(device.at(), 1, 64, work.get()) == hipSuccess);
  REQUIRE(hipEventRecord(mark.get(), work.get()) == hipSuccess);
  add_node(work.get());
  REQUIRE(hipFreeAsync(block, work.get()) == hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
  std::vector<int> types;
  for (hipGraphNode_t node : graph.nodes()) types.push_back(type_of(node));
  CHECK(types == std::vector<int>{hipvmm::hip_compat::graph_node_type_mem_alloc,
                                  hipGraphNodeTypeMemcpy, hipGraphNodeTypeMemcpy,
                                  hipGraphNodeTypeMemset, hipGraphNodeTypeHost,
                                  hipvmm::hip_compat::graph_node_type_mem_free});
}

WORK_CASE("graph: work of no bytes is not recorded") {
  void* block = &block;
  begin_capture(work.get());
  CHECK(hipMemcpyAsync(nullptr, nullptr, 0, hipMemcpyDefault, work.get()) == hipSuccess);
  CHECK(hipMemsetAsync(nullptr, 0, 0, work.get()) == hipSuccess);
  CHECK(hipMallocAsync(&block, 0, work.get()) == hipSuccess);
  CHECK(block == nullptr);
  const recorded_graph graph{end_capture(work.get())};
  CHECK(graph.nodes().empty());
}

WORK_CASE("graph: nodes are unknown once their graph is destroyed") {
  begin_capture(work.get());
  add_node(work.get());
  recorded_graph graph{end_capture(work.get())};
  hipGraphNode_t const node = graph.nodes().front();
  CHECK(type_of(node) == hipGraphNodeTypeHost);
  graph.destroy();
  hipGraphNodeType type{};
  CHECK(hipGraphNodeGetType(node, &type) == hipErrorInvalidValue);
}

WORK_CASE("graph: while it is recorded it may be looked at, not destroyed or instantiated") {
  begin_capture(work.get());
  add_node(work.get());
  hipStreamCaptureStatus status{};
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  size_t count = 0;
  REQUIRE(hipStreamGetCaptureInfo_v2(work.get(), &status, nullptr, &graph, nullptr, nullptr) ==
          hipSuccess);
  CHECK(hipGraphGetNodes(graph, nullptr, &count) == hipSuccess);
  CHECK(count == 1);
  CHECK(hipGraphDestroy(graph) == hipErrorInvalidValue);
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == hipErrorInvalidValue);
  const recorded_graph recorded{end_capture(work.get())};
}
