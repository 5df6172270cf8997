// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <vector>

#include "core/hip_compat.hpp"
#include "graph_fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

int type_of(hipGraphNode_t node) {
  hipGraphNodeType type{};
  REQUIRE(hipGraphNodeGetType(node, &type) == hipSuccess);
  int number = 0;
  std::memcpy(&number, &type, sizeof(number));
  return number;
}

}  // namespace

TEST_CASE("graph: a fill and a copy that were captured run at every launch, and not before") {
  const own_stream stream;
  const allocation memory{8192};
  REQUIRE(hipMemset(memory.get(), 0x11, 8192) == hipSuccess);
  begin_capture(stream.get());
  REQUIRE(hipMemsetAsync(memory.get(), 0x22, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(memory.get() + 4096, memory.get(), 4096, hipMemcpyDeviceToDevice,
                         stream.get()) == hipSuccess);
  recorded graph{stream.get()};
  graph.instantiate();
  CHECK(byte_at(memory.get()) == 0x11);
  for (int launch = 0; launch < 2; ++launch) {
    REQUIRE(hipMemset(memory.get(), 0x33, 8192) == hipSuccess);
    REQUIRE(hipGraphLaunch(graph.exec(), stream.get()) == hipSuccess);
    REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
    CHECK(byte_at(memory.get()) == 0x22);
    CHECK(byte_at(memory.get() + 8191) == 0x22);
  }
}

TEST_CASE("graph: pageable memory is read when it runs") {
  const own_stream stream;
  const allocation memory{4096};
  std::vector<unsigned char> source(4096, 0x44);
  begin_capture(stream.get());
  REQUIRE(hipMemcpyAsync(memory.get(), source.data(), 4096, hipMemcpyHostToDevice, stream.get()) ==
          hipSuccess);
  recorded graph{stream.get()};
  graph.instantiate();
  source.assign(4096, 0x55);
  REQUIRE(hipGraphLaunch(graph.exec(), stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(memory.get() + 4095) == 0x55);
}

TEST_CASE("graph: the null stream runs it too") {
  const own_stream stream;
  const allocation memory{4096};
  begin_capture(stream.get());
  REQUIRE(hipMemsetD32Async(memory.get(), 0x01020304, 1024, stream.get()) == hipSuccess);
  recorded graph{stream.get()};
  graph.instantiate();
  REQUIRE(hipGraphLaunch(graph.exec(), nullptr) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(byte_at(memory.get() + 4095) == 1);
}

TEST_CASE("graph: tells its nodes in order, their types, roots and edges") {
  const own_stream stream;
  const allocation memory{8192};
  void* block = nullptr;
  begin_capture(stream.get());
  REQUIRE(hipMallocAsync(&block, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipMemsetAsync(memory.get(), 1, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(memory.get() + 4096, memory.get(), 4096, hipMemcpyDeviceToDevice,
                         stream.get()) == hipSuccess);
  REQUIRE(hipFreeAsync(block, stream.get()) == hipSuccess);
  const recorded graph{stream.get()};

  std::size_t count = 0;
  REQUIRE(hipGraphGetNodes(graph.get(), nullptr, &count) == hipSuccess);
  REQUIRE(count == 4);
  std::vector<hipGraphNode_t> nodes(count);
  REQUIRE(hipGraphGetNodes(graph.get(), nodes.data(), &count) == hipSuccess);
  CHECK(type_of(nodes[0]) == hipvmm::hip_compat::graph_node_type_mem_alloc);
  CHECK(type_of(nodes[1]) == hipGraphNodeTypeMemset);
  CHECK(type_of(nodes[2]) == hipGraphNodeTypeMemcpy);
  CHECK(type_of(nodes[3]) == hipvmm::hip_compat::graph_node_type_mem_free);

  hipGraphNode_t roots[2] = {nullptr, nodes[1]};
  count = 2;
  REQUIRE(hipGraphGetRootNodes(graph.get(), roots, &count) == hipSuccess);
  CHECK(count == 1);
  CHECK(roots[0] == nodes[0]);
  CHECK(roots[1] == nullptr);

  hipGraphNode_t from[3] = {};
  hipGraphNode_t to[3] = {};
  count = 3;
  REQUIRE(hipGraphGetEdges(graph.get(), from, to, &count) == hipSuccess);
  CHECK(count == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(from[i] == nodes[i]);
    CHECK(to[i] == nodes[i + 1]);
  }
}

TEST_CASE("graph: its arguments") {
  const own_stream stream;
  hipGraph_t empty = nullptr;
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphNodeType type{};
  std::size_t count = 0;
  REQUIRE(hipGraphCreate(&empty, 0) == hipSuccess);
  const auto instantiate = [&](unsigned long long flags) {
    const hipError_t code = hipGraphInstantiateWithFlags(&exec, empty, flags);
    return code == hipSuccess ? hipGraphExecDestroy(exec) : code;
  };
  check_rules({
      {"create for nobody", [] { return hipGraphCreate(nullptr, 0); }},
      {"create with flags", [&] { return hipGraphCreate(&empty, 1); }},
      {"destroy null", [] { return hipGraphDestroy(nullptr); }},
      {"instantiate", [&] { return instantiate(0); }, hipSuccess},
      {"free on launch", [&] { return instantiate(1); }, hipSuccess},
      {"priorities of nodes", [&] { return instantiate(8); }, hipSuccess},
      {"unknown flags", [&] { return instantiate(16); }},
      {"instantiate null", [&] { return hipGraphInstantiateWithFlags(&exec, nullptr, 0); }},
      {"instantiate for nobody", [&] { return hipGraphInstantiateWithFlags(nullptr, empty, 0); }},
      {"launch null", [&] { return hipGraphLaunch(nullptr, stream.get()); }},
      {"destroy an executable null", [] { return hipGraphExecDestroy(nullptr); }},
      {"nodes without a count", [&] { return hipGraphGetNodes(empty, &node, nullptr); }},
      {"nodes of null", [&] { return hipGraphGetNodes(nullptr, &node, &count); }},
      {"roots without a count", [&] { return hipGraphGetRootNodes(empty, &node, nullptr); }},
      {"edges into one list", [&] { return hipGraphGetEdges(empty, &node, nullptr, &count); }},
      {"type of null", [&] { return hipGraphNodeGetType(nullptr, &type); }},
      {"destroy", [&] { return hipGraphDestroy(empty); }, hipSuccess},
  });
}

TEST_CASE("graph: instantiation that succeeds names no node and logs nothing") {
  hipGraph_t empty = nullptr;
  REQUIRE(hipGraphCreate(&empty, 0) == hipSuccess);
  hipGraphExec_t exec = nullptr;
  auto node = reinterpret_cast<hipGraphNode_t>(std::uintptr_t{64});
  char log[2] = "x";
  REQUIRE(hipGraphInstantiate(&exec, empty, &node, log, sizeof(log)) == hipSuccess);
  CHECK(node == nullptr);
  CHECK(log[0] == '\0');
  CHECK(hipGraphExecDestroy(exec) == hipSuccess);
  CHECK(hipGraphDestroy(empty) == hipSuccess);
}
