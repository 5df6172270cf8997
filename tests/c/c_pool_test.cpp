// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/stream.hpp>
#include "c/c_interface.hpp"
#include "support/captures.hpp"

namespace hipvmm::test {
namespace {

hipvmm_pool_statistics statistics_of(hipvmm_resource pool) {
  return result_of(hipvmm_pool_get_statistics, pool);
}

void* allocate(hipvmm_resource resource, std::size_t bytes) {
  return result_of(hipvmm_allocate, resource, bytes, 0, nullptr);
}

TEST_CASE("C pool: memory is allocated, counted, freed both ways and trimmed") {
  const owned_resource pool = make_pool("maximum=256MiB");
  void* const first = allocate(pool, 3 * MiB);
  void* const second = allocate(pool, MiB);
  CHECK(first != nullptr);
  CHECK(statistics_of(pool).used_current >= 4 * MiB);
  require_ok(hipvmm_deallocate(pool, first, 3 * MiB, 0, nullptr));
  require_ok(hipvmm_pool_deallocate(pool, second));
  CHECK(statistics_of(pool).used_current == 0);
  CHECK(statistics_of(pool).used_high >= 4 * MiB);
  require_ok(hipvmm_pool_reset_peaks(pool));
  CHECK(statistics_of(pool).used_high < 4 * MiB);  // a thread's cache may have some
  CHECK(result_of(hipvmm_pool_trim, pool, 0, 1000) >= 4 * MiB);
  CHECK(statistics_of(pool).reserved_current == 0);
  require_ok(hipvmm_pool_trim(pool, 0, 0, nullptr));
}

TEST_CASE("C pool: new chunks are as large as the option allows" * needs_virtual_memory) {
  const owned_resource pool = make_pool("maximum=128MiB,largest_chunk=5MiB");
  void* const memory = allocate(pool, 64 * MiB);
  // 16 of 4 MiB, more if all are of one size, fewer if each takes a descriptor; 1 otherwise.
  CHECK(statistics_of(pool).chunks_created >= 8);
  CHECK(statistics_of(pool).reserved_current == 64 * MiB);
  require_ok(hipvmm_deallocate(pool, memory, 64 * MiB, 0, nullptr));
  const owned_resource least = make_pool("maximum=128MiB,largest_chunk=1");
  require_ok(hipvmm_deallocate(least, allocate(least, 8 * MiB), 8 * MiB, 0, nullptr));
  CHECK(statistics_of(least).chunks_created >= 4);
}

TEST_CASE("C pool: zero bytes are null, and a null pointer may be freed") {
  const owned_resource pool = make_pool();
  void* memory = result_of(hipvmm_allocate, pool, 0, 0, nullptr);
  CHECK(memory == nullptr);
  require_ok(hipvmm_deallocate(pool, nullptr, 0, 0, nullptr));
  require_ok(hipvmm_allocate_sync(pool, 0, 0, &memory));
  require_ok(hipvmm_deallocate_sync(pool, nullptr, 0, 0));
  CHECK(hipvmm_allocate(pool, 1, 3, nullptr, &memory) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_allocate(pool, 1, 0, nullptr, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("C pool: what cannot be had is out_of_memory, and the report says what is held") {
  const owned_resource pool = make_pool("maximum=32MiB,initial=2MiB");
  void* memory = &memory;
  CHECK(fails(hipvmm_allocate(pool, 64 * MiB, 0, nullptr, &memory), HIPVMM_ERROR_OUT_OF_MEMORY,
              "64.0"));
  CHECK(memory == nullptr);
  CHECK_FALSE(text_of(hipvmm_pool_report, pool).empty());
  CHECK_FALSE(text_of(hipvmm_pool_explain, pool).empty());
  CHECK(statistics_of(pool).reserved_current >= 2 * MiB);
}

TEST_CASE("C pool: the release threshold and rights of other devices change") {
  const owned_resource pool = make_pool();
  require_ok(hipvmm_pool_set_release_threshold(pool, 12345));
  CHECK(result_of(hipvmm_pool_release_threshold, pool) == 12345);
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach each other");
  require_ok(hipvmm_pool_grant(pool, peer.ordinal(), HIPVMM_RIGHT_READ_WRITE));
  CHECK(result_of(hipvmm_pool_access, pool, peer.ordinal()) == HIPVMM_RIGHT_READ_WRITE);
  if (on_fallback()) return;
  const hipvmm_access access{peer.ordinal(), HIPVMM_RIGHT_NONE};
  require_ok(hipvmm_pool_set_access(pool, &access, 1));
  CHECK(result_of(hipvmm_pool_access, pool, peer.ordinal()) == HIPVMM_RIGHT_NONE);
}

TEST_CASE("C pool: a trim of blocks keeps no fewer bytes than it is to keep") {
  const owned_resource pool = make_pool();
  const owned_resource blocks{
      result_of(hipvmm_fixed_size_create, pool, "block_size=4KiB,blocks=4")};
  void* memory[8];
  for (void*& each : memory) require_ok(hipvmm_allocate(blocks, 4 * KiB, 0, nullptr, &each));
  for (void* const each : memory) require_ok(hipvmm_deallocate(blocks, each, 4 * KiB, 0, nullptr));
  require_ok(hipvmm_synchronize(nullptr));
  for (const std::size_t keep : {std::numeric_limits<std::size_t>::max(), 16 * KiB + 1}) {
    CHECK(result_of(hipvmm_pool_trim, blocks, keep, 1000) == 0);
  }
  CHECK(result_of(hipvmm_pool_trim, blocks, 16 * KiB, 1000) >= 16 * KiB);
}

TEST_CASE("C pool: streams are declared to pools, arenas and blocks alike") {
  const owned_resource pool = make_pool();
  const owned_resource arena{result_of(hipvmm_arena_create, pool, "maximum=64MiB,initial=8MiB")};
  CHECK(statistics_of(arena).reserved_current >= 8 * MiB);
  const owned_resource blocks{
      result_of(hipvmm_fixed_size_create, pool, "block_size=4KiB,blocks=4")};
  owned_stream two;
  const owned_stream one{result_of(hipvmm_stream_create, 0)};
  require_ok(hipvmm_stream_create(0, two.out()));
  void* values[2];
  require_ok(hipvmm_stream_get(one, &values[0]));
  require_ok(hipvmm_stream_get(two, &values[1]));
  for (const hipvmm_resource each : {pool.get(), arena.get(), blocks.get()}) {
    void* memory = nullptr;
    require_ok(hipvmm_allocate(each, 4096, 0, values[0], &memory));
    require_ok(hipvmm_deallocate(each, memory, 4096, 0, values[0]));
    require_ok(hipvmm_pool_note_stream_wait(each, values[1], values[0]));
    require_ok(hipvmm_pool_forget_stream(each, values[0]));
    require_ok(hipvmm_pool_trim(each, 0, 1000, nullptr));
  }
  CHECK(statistics_of(arena).reserved_current == 0);
  CHECK_FALSE(text_of(hipvmm_pool_report, arena).empty());
}

TEST_CASE("C graph_pool: memory of a capture, which the next one has too") {
  const owned_resource pool = make_pool("maximum=256MiB");
  owned_resource graphs;
  CHECK(fails(hipvmm_graph_pool_create(nullptr, graphs.out()), HIPVMM_ERROR_INVALID_HANDLE, ""));
  require_ok(hipvmm_graph_pool_create(pool, graphs.out()));
  const stream captured{first_device};
  void* memory = nullptr;
  CHECK(fails(hipvmm_allocate(graphs, MiB, 0, captured.get(), &memory), HIPVMM_ERROR_INVALID_STATE,
              "not being captured"));
  hipvmm_graph_pool_statistics now{};
  CHECK(hipvmm_graph_pool_get_statistics(graphs, &now) == HIPVMM_ERROR_INVALID_ARGUMENT);
  now.struct_size = sizeof now;
  void* before = nullptr;
  for (std::uint64_t capture = 1; capture < 3; ++capture) {
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
    require_ok(hipvmm_allocate(graphs, MiB, 0, captured.get(), &memory));
    CHECK((before == nullptr || before == memory));
    before = memory;
    require_ok(hipvmm_graph_pool_get_statistics(graphs, &now));
    CHECK(now.used_bytes == MiB);
    require_ok(hipvmm_deallocate(graphs, memory, MiB, 0, captured.get()));
    end_capture(captured.get());
    require_ok(hipvmm_graph_pool_get_statistics(graphs, &now));
    CHECK(now.captures == capture);
    CHECK(now.used_bytes == 0);
    CHECK(now.peak_bytes == MiB);
    CHECK(now.held_bytes == 2 * MiB);
  }
  CHECK(statistics_of(pool).used_current == 2 * MiB);
  require_ok(hipvmm_graph_pool_release(graphs));
  CHECK(statistics_of(pool).used_current == 0);
  CHECK(fails(hipvmm_graph_pool_release(pool), HIPVMM_ERROR_INVALID_HANDLE, "graph_pool"));
}

}  // namespace
}  // namespace hipvmm::test
