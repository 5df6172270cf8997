// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <optional>
#include <thread>

#include "capture_fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t graph_bytes = mib;
constexpr unsigned long long auto_free = hipGraphInstantiateFlagAutoFreeOnLaunch;

std::byte* allocate(hipStream_t stream, std::size_t size = graph_bytes) {
  void* pointer = nullptr;
  REQUIRE(hipMallocAsync(&pointer, size, stream) == hipSuccess);
  REQUIRE(pointer != nullptr);
  return static_cast<std::byte*>(pointer);
}

/// A graph that allocates memory, sets every byte and leaves it allocated.
struct allocating_graph {
  explicit allocating_graph(hipStream_t stream) {
    begin_capture(stream);
    memory = allocate(stream);
    REQUIRE(hipMemsetAsync(memory, 5, graph_bytes, stream) == hipSuccess);
    graph.emplace(end_capture(stream));
  }
  std::byte* memory = nullptr;
  std::optional<recorded_graph> graph;
};

hipError_t read(const std::byte* memory, hipStream_t stream) {
  std::byte target{};
  if (const hipError_t error = hipMemcpyAsync(&target, memory, 1, hipMemcpyDeviceToHost, stream)) {
    return error;
  }
  return hipStreamSynchronize(stream);
}

}  // namespace

WORK_CASE("graph: memory that it allocates and frees is there for every launch, and goes back") {
  const pool from;
  const pinned target{graph_bytes};
  for (const bool named_pool : {false, true}) {
    begin_capture(work.get());
    std::byte* const memory =
        named_pool ? from.allocate(graph_bytes, work.get()) : allocate(work.get());
    REQUIRE(hipMemsetAsync(memory, 7, graph_bytes, work.get()) == hipSuccess);
    REQUIRE(hipMemcpyAsync(target.at(), memory, graph_bytes, hipMemcpyDeviceToHost, work.get()) ==
            hipSuccess);
    free_in(memory, work.get());
    const recorded_graph graph{end_capture(work.get())};
    CHECK(hipvmm_host_device_bytes(0) == 0);
    const instance runs{graph.get()};
    for (int i = 0; i < 3; ++i) {
      std::fill_n(target.at(), graph_bytes, std::byte{0});
      CHECK(runs.launch(work.get()) == hipSuccess);
      CHECK(work.wait() == hipSuccess);
      CHECK(equal(target.at(), bytes_of(graph_bytes, 7)));
      CHECK(hipvmm_host_device_bytes(0) == 0);
      CHECK(live_objects().allocations == 0);
    }
  }
  CHECK(from.count(hipMemPoolAttrReservedMemHigh) == 0);
}

WORK_CASE("graph: the device is charged from the launch until the free has run, once") {
  begin_capture(work.get());
  free_in(allocate(work.get()), work.get());
  const recorded_graph graph{end_capture(work.get())};
  const instance runs{graph.get()};
  {
    const held_streams held;
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(hipvmm_host_device_bytes(0) == graph_bytes);
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

WORK_CASE("graph: memory that it does not free belongs to the program after the launch") {
  enum class way { in_stream, at_once };
  for (const way freed : {way::in_stream, way::at_once}) {
    const allocating_graph made{work.get()};
    const instance runs{made.graph->get()};
    CHECK(read(made.memory, work.get()) == hipErrorInvalidValue);
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(live_objects().allocations == 1);
    CHECK(hipvmm_host_device_bytes(0) == graph_bytes);
    CHECK(equal(made.memory, bytes_of(graph_bytes, 5)));
    CHECK(read(made.memory, work.get()) == hipSuccess);
    if (freed == way::in_stream) {
      free_in(made.memory, work.get());
    } else {
      CHECK(hipFree(made.memory) == hipSuccess);
    }
    CHECK(read(made.memory, work.get()) == hipErrorInvalidValue);
    CHECK(hipFreeAsync(made.memory, work.get()) == hipErrorInvalidValue);
    CHECK(hipFree(made.memory) == hipErrorInvalidValue);
    CHECK(work.wait() == hipSuccess);
    CHECK(hipvmm_host_device_bytes(0) == 0);
  }
}

WORK_CASE("graph: an instance that frees on launch frees what its last launch left") {
  const allocating_graph made{work.get()};
  const instance runs{made.graph->get(), auto_free};
  for (int i = 0; i < 3; ++i) {
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(live_objects().allocations == 1);
    CHECK(hipvmm_host_device_bytes(0) == graph_bytes);
    CHECK(equal(made.memory, bytes_of(graph_bytes, 5)));
  }
  free_in(made.memory, work.get());
  CHECK(work.wait() == hipSuccess);
}

WORK_CASE("graph: memory stays usable when graph and instance are gone, until it is freed") {
  std::byte* memory = nullptr;
  {
    const allocating_graph made{work.get()};
    const instance runs{made.graph->get()};
    memory = made.memory;
    const held_streams held;
    CHECK(runs.launch(work.get()) == hipSuccess);
  }
  CHECK(read(memory, work.get()) == hipSuccess);
  CHECK(equal(memory, bytes_of(graph_bytes, 5)));
  free_in(memory, work.get());
  CHECK(work.wait() == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

WORK_CASE("graph: another graph may free its memory") {
  const allocating_graph made{work.get()};
  const instance allocates{made.graph->get()};
  CHECK(allocates.launch(work.get()) == hipSuccess);
  begin_capture(work.get());
  CHECK(hipFreeAsync(made.memory, work.get()) == hipSuccess);
  CHECK(hipFreeAsync(made.memory, work.get()) == hipErrorInvalidValue);
  const recorded_graph freeing{end_capture(work.get())};
  CHECK(live_objects().allocations == 1);
  const instance frees{freeing.get()};
  for (int i = 0; i < 2; ++i) {
    CHECK(frees.launch(work.get()) == hipSuccess);
    CHECK(frees.launch(work.get()) == hipErrorInvalidValue);
    CHECK(live_objects().allocations == 0);
    CHECK(allocates.launch(work.get()) == hipSuccess);
  }
  CHECK(frees.launch(work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
}

WORK_CASE("graph: in a capture only memory of graphs is freed, and once") {
  const stream outside;
  const allocation device{64};
  std::byte* const block = allocate(work.get());
  const thread_mode relaxed{hipStreamCaptureModeRelaxed};
  begin_capture(work.get());
  std::byte* const memory = allocate(work.get());
  check_refusals({
      {"memory of a pool", hipFreeAsync(block, work.get())},
      {"memory of hipMalloc", hipFreeAsync(device.at(), work.get())},
      {"the middle of it", hipFreeAsync(memory + 64, work.get())},
      {"in a stream that is not captured", hipFreeAsync(memory, outside.get())},
      {"at once", hipFree(memory)},
  });
  free_in(memory, work.get());
  check_refusals({
      {"twice", hipFreeAsync(memory, work.get())},
      {"a fill after the free", hipMemsetAsync(memory, 0, 64, work.get())},
  });
  const recorded_graph graph{end_capture(work.get())};
  CHECK(graph.nodes().size() == 2);
  free_in(block, work.get());
  CHECK(work.wait() == hipSuccess);
}

WORK_CASE("graph: work that is not captured finds nothing in memory that is only recorded") {
  const stream outside;
  const thread_mode relaxed{hipStreamCaptureModeRelaxed};
  begin_capture(work.get());
  std::byte* const memory = allocate(work.get());
  REQUIRE(hipMemsetAsync(memory, 0, 64, outside.get()) == hipSuccess);
  CHECK(outside.wait() == hipErrorIllegalAddress);
  const recorded_graph graph{end_capture(work.get())};
}

WORK_CASE("graph: with memory it has one instance at a time, in whatever order they run") {
  const stream other;
  begin_capture(work.get());
  std::byte* const memory = allocate(work.get());
  REQUIRE(hipMemsetAsync(memory, 5, graph_bytes, work.get()) == hipSuccess);
  free_in(memory, work.get());
  const recorded_graph graph{end_capture(work.get())};
  instance first{graph.get()};
  hipGraphExec_t second = nullptr;
  CHECK(hipGraphInstantiate(&second, graph.get(), nullptr, nullptr, 0) == hipErrorNotSupported);
  CHECK(second == nullptr);
  roadblock block{work.get()};
  CHECK(first.launch(work.get()) == hipSuccess);
  first.destroy();
  const instance next{graph.get()};
  CHECK(next.launch(other.get()) == hipSuccess);
  let_workers_run();
  CHECK(hipStreamQuery(other.get()) == hipErrorNotReady);
  block.open();
  CHECK(other.wait() == hipSuccess);
}

WORK_CASE("graph: a launch that the device has no room for changes nothing") {
  begin_capture(work.get());
  std::byte* const small = allocate(work.get());
  std::byte* const large = allocate(work.get(), device_budget);
  free_in(small, work.get());
  free_in(large, work.get());
  const recorded_graph graph{end_capture(work.get())};
  const instance runs{graph.get()};
  CHECK(runs.launch(work.get()) == hipErrorOutOfMemory);
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(live_objects().allocations == 0);
  CHECK(runs.launch(work.get()) == hipErrorOutOfMemory);
}

WORK_CASE("graph: memory of a capture that failed is forgotten") {
  begin_capture(work.get());
  std::byte* const memory = allocate(work.get());
  REQUIRE(hipStreamQuery(work.get()) == hipErrorStreamCaptureUnsupported);
  end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
  hipPointerAttribute_t attributes{};
  CHECK(hipPointerGetAttributes(&attributes, memory) == hipSuccess);
  CHECK(attributes.device == hipInvalidDeviceId);
}

WORK_CASE("graph: devices have the rights to its memory that they have to the pool's") {
  const stream of_1{hipStreamNonBlocking, 1};
  const event out;
  const pool shared;
  const hipMemAccessDesc reading = access_of(1, hipMemAccessFlagsProtRead);
  REQUIRE(hipMemPoolSetAccess(shared.get(), &reading, 1) == hipSuccess);
  const pinned target{graph_bytes};
  begin_capture(work.get());
  std::byte* const memory = shared.allocate(graph_bytes, work.get());
  fork_to(of_1.get(), work.get(), out.get());
  CHECK(hipMemsetAsync(memory, 1, graph_bytes, of_1.get()) == hipErrorInvalidValue);
  CHECK(hipMemcpyAsync(target.at(), memory, graph_bytes, hipMemcpyDefault, of_1.get()) ==
        hipSuccess);
  end_capture_with(hipErrorStreamCaptureUnjoined, work.get());
}

WORK_CASE("graph: hipFree of its memory waits for the work of all devices") {
  const stream of_1{hipStreamNonBlocking, 1};
  const allocating_graph made{work.get()};
  const instance runs{made.graph->get()};
  CHECK(runs.launch(work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  bool ran = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(hipLaunchHostFunc(of_1.get(), set, &ran) == hipSuccess);
  CHECK(hipFree(made.memory) == hipSuccess);
  CHECK(ran);
}

WORK_CASE("graph: threads may launch one instance with memory at the same time") {
  const pinned target{graph_bytes};
  begin_capture(work.get());
  std::byte* const memory = allocate(work.get());
  REQUIRE(hipMemsetAsync(memory, 6, graph_bytes, work.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(target.at(), memory, graph_bytes, hipMemcpyDeviceToHost, work.get()) ==
          hipSuccess);
  free_in(memory, work.get());
  const recorded_graph graph{end_capture(work.get())};
  const instance runs{graph.get()};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        if (runs.launch(hipStreamPerThread) != hipSuccess) ++failed;
      }
      if (hipStreamSynchronize(hipStreamPerThread) != hipSuccess) ++failed;
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(failed == 0);
  CHECK(equal(target.at(), bytes_of(graph_bytes, 6)));
  CHECK(hipvmm_host_device_bytes(0) == 0);
}
