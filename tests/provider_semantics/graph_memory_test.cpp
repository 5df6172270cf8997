// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "graph_fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

// A graph that allocates a block and fills it; `block` is its address.
recorded allocating(hipStream_t stream, void*& block) {
  begin_capture(stream);
  REQUIRE(hipMallocAsync(&block, 4096, stream) == hipSuccess);
  REQUIRE(hipMemsetAsync(block, 0x66, 4096, stream) == hipSuccess);
  return recorded{stream};
}

}  // namespace

TEST_CASE("graph memory: what it allocates and frees is there at every launch") {
  const own_stream stream;
  const allocation seen{4096};
  void* block = nullptr;
  begin_capture(stream.get());
  REQUIRE(hipMallocAsync(&block, 4096, stream.get()) == hipSuccess);
  REQUIRE(block != nullptr);
  REQUIRE(hipMemsetAsync(block, 0x77, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(seen.get(), block, 4096, hipMemcpyDeviceToDevice, stream.get()) ==
          hipSuccess);
  REQUIRE(hipFreeAsync(block, stream.get()) == hipSuccess);
  recorded graph{stream.get()};
  graph.instantiate();
  for (int launch = 0; launch < 2; ++launch) {
    REQUIRE(hipMemset(seen.get(), 0, 4096) == hipSuccess);
    REQUIRE(hipGraphLaunch(graph.exec(), stream.get()) == hipSuccess);
    REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
    CHECK(byte_at(seen.get() + 4095) == 0x77);
  }
}

TEST_CASE("graph memory: what a launch left is freed by the program, in either way and once") {
  const own_stream stream;
  void* block = nullptr;
  recorded graph = allocating(stream.get(), block);
  graph.instantiate();
  const auto launch = [&] { return hipGraphLaunch(graph.exec(), stream.get()); };
  check_rules({
      {"before a launch", [&] { return hipFreeAsync(block, stream.get()); }},
      {"launch", launch, hipSuccess},
      {"launch while it is held", launch, hipErrorInvalidValue},
      {"hipFreeAsync", [&] { return hipFreeAsync(block, stream.get()); }, hipSuccess},
      {"again", [&] { return hipFreeAsync(block, stream.get()); }},
      {"launch anew", launch, hipSuccess},
      {"hipFree", [&] { return hipFree(block); }, hipSuccess},
      {"hipFree again", [&] { return hipFree(block); }},
      {"launch at last", launch, hipSuccess},
  });
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(block) == 0x66);
  CHECK(hipFree(block) == hipSuccess);
}

TEST_CASE("graph memory: hipFreeAsync frees it behind the work of the stream") {
  const own_stream stream{hipStreamNonBlocking};
  const allocation seen{4096};
  void* block = nullptr;
  recorded graph = allocating(stream.get(), block);
  graph.instantiate();
  {
    held back{stream.get()};
    REQUIRE(hipGraphLaunch(graph.exec(), stream.get()) == hipSuccess);
    REQUIRE(hipMemcpyAsync(seen.get(), block, 4096, hipMemcpyDeviceToDevice, stream.get()) ==
            hipSuccess);
    CHECK(hipFreeAsync(block, stream.get()) == hipSuccess);
    CHECK(hipStreamQuery(stream.get()) == hipErrorNotReady);
  }
  CHECK(byte_at(seen.get()) == 0x66);
}

TEST_CASE("graph memory: an executable graph that frees on launch may be launched again") {
  const own_stream stream;
  void* block = nullptr;
  recorded graph = allocating(stream.get(), block);
  graph.instantiate(hipGraphInstantiateFlagAutoFreeOnLaunch);
  REQUIRE(hipGraphLaunch(graph.exec(), stream.get()) == hipSuccess);
  REQUIRE(hipGraphLaunch(graph.exec(), stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(block) == 0x66);
  CHECK(hipFree(block) == hipSuccess);
}

TEST_CASE("graph memory: a graph with memory has one executable graph at a time") {
  const own_stream stream;
  void* block = nullptr;
  recorded graph = allocating(stream.get(), block);
  graph.instantiate();
  hipGraphExec_t second = nullptr;
  CHECK(hipGraphInstantiateWithFlags(&second, graph.get(), 0) == hipErrorNotSupported);
}

TEST_CASE("graph memory: in a capture only memory of graphs is freed, and once") {
  const own_stream stream;
  const allocation plain{4096};
  void* of_pool = nullptr;
  void* block = nullptr;
  REQUIRE(hipMallocAsync(&of_pool, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  begin_capture(stream.get());
  check_rules({
      {"a pool's", [&] { return hipFreeAsync(of_pool, stream.get()); }},
      {"hipMalloc's", [&] { return hipFreeAsync(plain.get(), stream.get()); }},
      {"allocate", [&] { return hipMallocAsync(&block, 4096, stream.get()); }, hipSuccess},
      {"its own", [&] { return hipFreeAsync(block, stream.get()); }, hipSuccess},
      {"its own again", [&] { return hipFreeAsync(block, stream.get()); }},
      {"the end", [&] { return end_capture(stream.get()); }, hipSuccess},
      {"the pool's outside", [&] { return hipFreeAsync(of_pool, stream.get()); }, hipSuccess},
  });
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
}

TEST_CASE("pool memory: hipFreeAsync frees no other kind of memory") {
  const own_stream stream;
  mapped chunk{1};
  chunk.open();
  void* pinned = nullptr;
  REQUIRE(hipHostMalloc(&pinned, 4096, 0) == hipSuccess);
  check_rules({
      {"mapped", [&] { return hipFreeAsync(chunk.at(), stream.get()); }},
      {"pinned", [&] { return hipFreeAsync(pinned, stream.get()); }},
  });
  CHECK(hipHostFree(pinned) == hipSuccess);
}
