// SPDX-License-Identifier: MIT
// graph_pool while HIP calls fail one after another, memory as HIP counts it, and threads.
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/graph_pool.hpp>
#include "mr/mr_test.hpp"
#include "mr/pool/graph/graph_driver.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t whole_segment = 10 * MiB;  // a segment

/// A capture of two streams, the second of which is behind a free of the first.
struct captured_pool {
  mr::vmm_pool_resource pool{first_device, {}};
  mr::graph_pool graphs{&pool};
  stream own{first_device};
  stream side{first_device};
  void* memory = nullptr;

  captured_pool() {
    REQUIRE(hipStreamBeginCapture(own.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  }
  ~captured_pool() { CHECK(end_capture_if_kept(own.get())); }
  captured_pool& operator=(captured_pool&&) = delete;

  void join(stream_ref waiter, stream_ref other) const {
    const event reached{first_device};
    REQUIRE(hipMemsetAsync(memory, 0, 1, other.get()) == hipSuccess);
    REQUIRE(hipEventRecord(reached.get(), other.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(waiter.get(), reached.get(), 0) == hipSuccess);
  }
};
using captured_pointer = std::unique_ptr<captured_pool>;

captured_pointer new_capture() { return std::make_unique<captured_pool>(); }
captured_pointer capture_with_memory() {
  captured_pointer made = new_capture();
  made->memory = made->graphs.allocate(made->own, whole_segment);
  return made;
}
captured_pointer capture_with_free_memory() {
  captured_pointer made = capture_with_memory();
  made->join(made->side, made->own);
  made->graphs.deallocate(made->own, made->memory, whole_segment);
  return made;
}

/// Serves the capture still, with nothing allocated.
void serves_capture(captured_pool& s) {
  CHECK(s.graphs.statistics().used_bytes == 0);
  CHECK(s.graphs.statistics().held_bytes == s.pool.statistics().used_current);
  void* const again = s.graphs.allocate(s.own, whole_segment);
  s.graphs.deallocate(s.own, again, whole_segment);
  s.graphs.release();
  CHECK(s.pool.statistics().used_current == 0);
}

TEST_CASE("graph_pool: calls whose HIP calls fail in turn leave what there was") {
  const auto freed = [](auto& s) {
    CHECK(s.graphs.statistics().used_bytes == whole_segment);
    s.graphs.deallocate(s.own, s.memory, whole_segment);
    serves_capture(s);
  };
  fault_sweep{"allocate", after_failure::capacity}.run(
      new_capture, [](auto& s) { s.memory = s.graphs.allocate(s.own, whole_segment); },
      serves_capture, freed);
  // Without the edges of the graph it takes other memory.
  fault_sweep{"allocate behind another stream", after_failure::capacity}.run(
      [] {
        captured_pointer made = capture_with_free_memory();
        made->join(made->side, made->own);
        return made;
      },
      [](auto& s) { s.memory = s.graphs.allocate(s.side, whole_segment); },
      [](auto& s) {
        s.join(s.own, s.side);
        serves_capture(s);
      },
      [&](auto& s) {
        s.join(s.own, s.side);
        freed(s);
      });
  fault_sweep{"deallocate", after_failure::capacity}.run(
      capture_with_memory, [](auto& s) { s.graphs.deallocate(s.own, s.memory, whole_segment); },
      [](auto&) { FAIL("a deallocation threw"); }, serves_capture);
}

TEST_CASE("graph_pool: at random, with HIP calls that fail, no stream has what another may use") {
  const error_recorder reported;
  std::mt19937 random = seeded_generator(11);
  graph_driver driver{random, [&](const std::function<void()>& call) {
                        std::optional<planned_faults> faults;
                        if (below(random, 4) == 0)
                          faults.emplace("any nth=" + std::to_string(1 + below(random, 8)) +
                                         " error=hipErrorOperatingSystem");
                        try {
                          call();
                        } catch (const hip_error&) {
                        } catch (const out_of_memory&) {
                        }
                      }};
  driver.run(6);
}

TEST_CASE("graph_pool: HIP has no memory of it once it has ended") {
  const hipvmm_host_counters before = live_objects();
  {
    mr::vmm_pool_resource pool{first_device, {}};
    mr::hip_resource upstream{first_device};
    mr::arena_resource arena{&upstream, 64 * MiB};
    const stream own{first_device};
    for (mr::memory_resource* const each :
         {static_cast<mr::memory_resource*>(&pool), static_cast<mr::memory_resource*>(&arena)}) {
      mr::graph_pool graphs{each};
      REQUIRE(hipStreamBeginCapture(own.get(), hipStreamCaptureModeGlobal) == hipSuccess);
      void* const memory = graphs.allocate(own, whole_segment);
      graphs.deallocate(own, memory, whole_segment);
      CHECK(graphs.allocate(own, whole_segment) == memory);
      end_capture(own.get());
      CHECK(graphs.statistics().held_bytes == whole_segment);
    }
    CHECK(pool.statistics().used_current + arena.statistics().used_current == 0);
  }
  drain_retired_memory();
  hipvmm_host_counters after = live_objects();
  after.handles -= pinned_chunks_kept();
  CHECK(after == before);
}

TEST_CASE("graph_pool: its end does not wait, and nobody has the memory of a graph that runs") {
  mr::vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  blocked_stream runs{first_device};
  const stream own{first_device};
  void* memory = nullptr;
  hipGraph_t graph = nullptr;
  hipGraphExec_t launched = nullptr;
  {
    mr::graph_pool graphs{&pool};
    REQUIRE(hipStreamBeginCapture(own.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
    memory = graphs.allocate(own, whole_segment);
    REQUIRE(hipMemsetAsync(memory, 1, whole_segment, own.get()) == hipSuccess);
    REQUIRE(hipStreamEndCapture(own.get(), &graph) == hipSuccess);
    REQUIRE(hipGraphInstantiate(&launched, graph, nullptr, nullptr, 0) == hipSuccess);
    REQUIRE(hipGraphLaunch(launched, stream_ref{runs}.get()) == hipSuccess);
  }
  CHECK_FALSE(runs.is_done());
  void* const other = pool.allocate(own, whole_segment);
  CHECK(other != memory);
  runs.release();
  pool.deallocate(own, other, whole_segment);
  stream_ref{runs}.synchronize();
  CHECK(hipGraphExecDestroy(launched) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

TEST_CASE("graph_pool: threads capture one graph together") {
  mr::vmm_pool_resource pool{first_device, {}};
  mr::graph_pool graphs{&pool};
  const stream own{first_device};
  std::vector<stream> sides;
  REQUIRE(hipStreamBeginCapture(own.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  const event begun{first_device};
  REQUIRE(hipEventRecord(begun.get(), own.get()) == hipSuccess);
  for (int each = 0; each < 4; ++each) {
    sides.emplace_back(first_device);
    REQUIRE(hipStreamWaitEvent(sides.back().get(), begun.get(), 0) == hipSuccess);
  }
  in_a_thread_each(sides, [&](const stream& each) {
    const stream_ref in{each};
    for (int round = 0; round < 50; ++round) {
      void* const memory = graphs.allocate(in, 64 * KiB);
      static_cast<void>(hipMemsetAsync(memory, 0, 64, in.get()));
      graphs.deallocate(in, memory, 64 * KiB);
    }
  });
  for (const stream& each : sides) {
    const event done{first_device};
    REQUIRE(hipEventRecord(done.get(), each.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(own.get(), done.get(), 0) == hipSuccess);
  }
  end_capture(own.get());
  CHECK(graphs.statistics().used_bytes == 0);
  CHECK(graphs.statistics().held_bytes <= 4 * 2 * MiB);  // a segment each at most
}

}  // namespace
}  // namespace hipvmm::test
