// SPDX-License-Identifier: MIT
#include "c/torch_pool.hpp"

#include <hipvmm/torch.h>
#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/c_interface.hpp"
#include "c/torch_error.hpp"
#include "support/blocked_stream.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t block = 4 * MiB;
constexpr c::torch_pool::graphs_id graphs{0, 7};

struct torch_subject {
  c::torch_pool torch{first_device, {}};
  stream own{first_device};

  [[nodiscard]] std::size_t used() { return torch.pool().statistics().used_current; }
  void begin(stream_ref captured) {
    torch.begin_graphs(graphs, [=](ihipStream_t* asked) { return asked == captured.get(); });
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeThreadLocal) == hipSuccess);
  }
  void end(stream_ref captured) {
    hipGraph_t graph = nullptr;
    REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
    REQUIRE(hipGraphDestroy(graph) == hipSuccess);
    torch.end_graphs(graphs);
  }
};

TEST_CASE_FIXTURE(torch_subject,
                  "torch_pool: memory is counted, and reused in its stream at once") {
  void* const memory = torch.allocate(block, own);
  CHECK(torch.allocated() == block);
  torch.deallocate(memory, block, own);
  CHECK(torch.allocated() == 0);
  CHECK(torch.peak() == block);
  void* const again = torch.allocate(block, own);
  CHECK(again == memory);
  torch.deallocate(again, block, own);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject,
                  "torch_pool: memory that another stream uses is not reused before") {
  for (const bool is_erased : {false, true}) {
    CAPTURE(is_erased);
    blocked_stream other{first_device};
    void* const memory = torch.allocate(block, own);
    torch.record_stream(memory, other);
    torch.record_stream(memory, other);
    torch.record_stream(memory, own);
    if (is_erased) torch.erase_stream(memory, other);
    torch.deallocate(memory, block, own);
    CHECK(!other.is_done());  // nothing waited
    CHECK(torch.allocated() == 0);
    void* const next = torch.allocate(block, own);
    CHECK((next == memory) == is_erased);
    torch.deallocate(next, block, own);
    other.release();
  }
  own.synchronize();
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject,
                  "torch_pool: memory that a peer's stream uses is not reused before") {
  if (device_count() < 2 || !second_device.can_access_peer(first_device)) return;
  blocked_stream other{second_device};
  void* const memory = torch.allocate(block, own);
  torch.record_stream(memory, other);
  torch.deallocate(memory, block, own);
  void* const next = torch.allocate(block, own);
  CHECK(next != memory);
  torch.deallocate(next, block, own);
}

TEST_CASE_FIXTURE(torch_subject,
                  "torch_pool: memory of a stream that ended is freed all the same") {
  // CUDA crashes if it is given one.
  if (HIPVMM_TEST_ON_CUDA) return;
  void* const memory = torch.allocate(block, own);
  {
    const stream gone{first_device};
    torch.record_stream(memory, gone);
  }
  torch.deallocate(memory, block, own);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a graph's memory serves the graph alone") {
  void* const before = torch.allocate(block, own);
  const stream captured{first_device};
  begin(captured);
  void* const first = torch.allocate(block, captured);
  torch.deallocate(first, block, captured);
  // In its stream at once, in parts, which join again.
  void* const part = torch.allocate(1000, captured);
  void* const rest = torch.allocate(2000, captured);
  CHECK(part == first);
  CHECK(static_cast<char*>(rest) == static_cast<char*>(part) + 1024);
  torch.deallocate(part, 1000, captured);
  torch.deallocate(rest, 2000, captured);
  CHECK(torch.allocate(block, captured) == first);
  // Others have none of it.
  void* const outside = torch.allocate(block, own);
  CHECK(outside != first);
  torch.deallocate(outside, block, own);
  torch.deallocate(before, block, own);
  torch.deallocate(first, block, captured);
  end(captured);

  CHECK(used() > 0);  // the graph may be launched
  void* const after = torch.allocate(block, captured);
  CHECK(after != first);
  torch.deallocate(after, block, captured);
  torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a graph's memory goes back when it is released") {
  const stream captured{first_device};
  begin(captured);
  void* const kept = torch.allocate(block, captured);
  void* const freed = torch.allocate(5 * block, captured);
  torch.deallocate(freed, 5 * block, captured);
  end(captured);
  // A second graph of the same memory.
  begin(captured);
  CHECK(torch.allocate(5 * block, captured) == freed);
  torch.deallocate(freed, 5 * block, captured);
  end(captured);
  torch.release_graphs(graphs);
  const std::size_t of_both = used();
  torch.release_graphs(graphs);
  CHECK(used() < of_both);
  CHECK(used() > 0);
  torch.deallocate(kept, block, captured);
  CHECK(used() == 0);
  torch.release_graphs(graphs);  // one too many
}

TEST_CASE_FIXTURE(torch_subject,
                  "torch_pool: what other streams of a graph use waits for its end") {
  const stream captured{first_device};
  begin(captured);
  void* const memory = torch.allocate(block, captured);
  torch.record_stream(memory, own);
  torch.deallocate(memory, block, captured);
  void* const next = torch.allocate(block, captured);
  CHECK(next != memory);
  torch.deallocate(next, block, captured);
  end(captured);
  begin(captured);
  CHECK(torch.allocate(2 * block, captured) == memory);
  torch.deallocate(memory, 2 * block, captured);
  end(captured);
  torch.release_graphs(graphs);
  torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject,
                  "torch_pool: what other streams used goes back after the graph's end too") {
  const stream captured{first_device};
  begin(captured);
  void* const memory = torch.allocate(block, captured);
  torch.record_stream(memory, own);
  end(captured);
  torch.deallocate(memory, block, captured);
  torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(
    torch_subject,
    "torch_pool: memory of graphs that another stream uses outside of a capture waits "
    "for it") {
  // As torch.cuda.use_mem_pool() does without a graph.
  const auto begin_pool = [&] {
    torch.begin_graphs(graphs, [&](ihipStream_t* asked) { return asked == own.get(); });
  };
  blocked_stream other{first_device};
  begin_pool();
  void* const memory = torch.allocate(block, own);
  torch.record_stream(memory, other);
  torch.deallocate(memory, block, own);
  CHECK(!other.is_done());
  torch.end_graphs(graphs);
  begin_pool();
  void* const next = torch.allocate(block, own);
  CHECK(next != memory);
  other.release();
  REQUIRE(hipDeviceSynchronize() == hipSuccess);
  CHECK(comes_true([&] {
    void* const last = torch.allocate(block, own);
    torch.deallocate(last, block, own);
    return last == memory;
  }));
  torch.deallocate(next, block, own);
  torch.end_graphs(graphs);
  torch.release_graphs(graphs);
  torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: the end of one capture is not that of another") {
  const stream captured{first_device};
  const stream beside{first_device};
  begin(captured);
  begin(beside);
  void* const memory = torch.allocate(block, beside);
  torch.record_stream(memory, own);
  torch.deallocate(memory, block, beside);
  end(captured);
  void* const next = torch.allocate(block, beside);
  CHECK(next != memory);
  torch.deallocate(next, block, beside);
  end(beside);
  for (int begun = 0; begun < 2; ++begun) torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: graphs may be released without an end") {
  const auto begin_pool = [&] { torch.begin_graphs(graphs, nullptr); };
  begin_pool();
  torch.release_graphs(graphs);
  void* const memory = torch.allocate(block, own);
  torch.deallocate(memory, block, own);
  torch.end_graphs(graphs);
  begin_pool();
  void* const kept = torch.allocate(block, own);
  torch.release_graphs(graphs);
  torch.deallocate(kept, block, own);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a use that is recorded too late harms no graph") {
  void* const before = torch.allocate(block, own);
  torch.deallocate(before, block, own);
  own.synchronize();
  torch.record_stream(before, own);
  torch.begin_graphs(graphs, nullptr);
  void* const memory = torch.allocate(block, own);
  if (memory == before) {
    torch.deallocate(memory, block, own);
    CHECK(torch.allocate(block, own) == memory);
  }
  torch.deallocate(memory, block, own);
  torch.end_graphs(graphs);
  torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a graph asks for more than there are addresses") {
  torch.begin_graphs(graphs, nullptr);
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 511, SIZE_MAX - 2 * MiB})
    CHECK_THROWS_AS(torch.allocate(bytes, own), out_of_memory);
  CHECK(torch.allocated() == 0);
  torch.end_graphs(graphs);
  torch.release_graphs(graphs);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: memory freed in a capture waits for its end") {
  const stream captured{first_device};
  void* const memory = torch.allocate(block, captured);
  begin(captured);
  torch.deallocate(memory, block, captured);
  CHECK(used() == block);
  end(captured);
  CHECK(used() == 0);
  torch.release_graphs(graphs);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a free that is refused is not counted") {
  const error_recorder reported;
  void* const memory = torch.allocate(block, own);
  std::size_t refused = 0;
  const auto is_counted = [&](std::size_t bytes) {
    return torch.allocated() == bytes && torch.statistics().count_current == (bytes == 0 ? 0 : 1) &&
           reported.count() == refused;
  };
  torch.deallocate(memory, block + 1, own);
  torch.deallocate(&refused, 4, own);
  refused = 2;
  CHECK(is_counted(block));
  torch.record_stream(memory, stream_ref::legacy_default());
  torch.deallocate(memory, block, own);
  CHECK(is_counted(0));
  torch.deallocate(memory, block, own);
  ++refused;
  CHECK(is_counted(0));
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: memory freed twice in a capture is counted once") {
  const error_recorder reported;
  const stream captured{first_device};
  void* const memory = torch.allocate(block, captured);
  begin(captured);
  torch.deallocate(memory, block, captured);
  torch.deallocate(memory, block, captured);
  CHECK((torch.allocated() == 0 && reported.count() == 1));
  end(captured);
  CHECK(used() + torch.allocated() == 0);
  torch.release_graphs(graphs);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a filter may allocate and free") {
  torch.begin_graphs(graphs, [&](ihipStream_t* asked) {
    torch.deallocate(torch.allocate(block, own), block, own);
    return asked == own.get();
  });
  void* const of_graph = torch.allocate(block, own);
  CHECK(torch.allocated() == block);
  torch.deallocate(of_graph, block, own);
  torch.end_graphs(graphs);
  torch.release_graphs(graphs);
  CHECK(used() == 0);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a callback of an event may allocate and free") {
  torch.begin_graphs(graphs, [&](ihipStream_t* asked) { return asked == own.get(); });
  std::atomic<bool> is_called{false};
  const memory_event_subscription all{[&](const memory_event&) {
    if (is_called.exchange(true)) return;
    torch.deallocate(torch.allocate(block, own), block, own);
    torch.release_idle();
  }};
  torch.deallocate(torch.allocate(block, own), block, own);
  CHECK(is_called);
  torch.end_graphs(graphs);
  torch.release_graphs(graphs);
}

TEST_CASE_FIXTURE(torch_subject, "torch_pool: a limit is kept, and said") {
  torch.set_limit(2 * block);
  void* const memory = torch.allocate(block, own);
  const auto error = thrown_by<out_of_memory>([&] { return torch.allocate(block + 1, own); });
  CHECK(error.resource() == exhausted::limit);
  CHECK(error.bytes_free() == block);
  CHECK(std::string{error.what()}.find("memory fraction") != std::string::npos);
  torch.deallocate(memory, block, own);
}

hipvmm_torch_statistics statistics_of(int device) {
  return result_of(hipvmm_torch_get_statistics, device);
}

TEST_CASE("torch.h: statistics count what is allocated, and begin their peaks anew") {
  const hipvmm_torch_statistics before = statistics_of(0);
  void* const first = hipvmm_torch_alloc(block, 0, nullptr);
  void* const second = hipvmm_torch_alloc(2 * block, 0, nullptr);
  hipvmm_torch_free(second, 2 * block, 0, nullptr);
  hipvmm_torch_statistics after = statistics_of(0);
  CHECK(after.allocated_current - before.allocated_current == block);
  CHECK(after.allocated_high >= before.allocated_current + 3 * block);
  CHECK(after.allocated_total - before.allocated_total == 3 * block);
  CHECK(after.count_current - before.count_current == 1);
  CHECK(after.count_total - before.count_total == 2);
  require_ok(hipvmm_torch_reset_peaks(0));
  after = statistics_of(0);
  CHECK(after.allocated_high == after.allocated_current);
  hipvmm_torch_free(first, block, 0, nullptr);
}

TEST_CASE("torch.h: each device has a pool, with its statistics and for whoever reaches it") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream there{peer};
  const std::size_t here = statistics_of(0).allocated_current;
  // PyTorch's default stream is null for each device, and another device may be current.
  const scoped_device current{first_device};
  for (void* const used : {static_cast<void*>(there.get()), static_cast<void*>(nullptr)}) {
    CAPTURE(used);
    const std::size_t before = statistics_of(peer.ordinal()).allocated_current;
    void* const memory = hipvmm_torch_alloc(block, peer.ordinal(), used);
    hipPointerAttribute_t found{};
    REQUIRE(hipPointerGetAttributes(&found, memory) == hipSuccess);
    CHECK(found.device == peer.ordinal());
    CHECK(statistics_of(peer.ordinal()).allocated_current == before + block);
    CHECK(statistics_of(0).allocated_current == here);
    hipvmm_torch_free(memory, block, peer.ordinal(), used);
    CHECK(statistics_of(peer.ordinal()).allocated_current == before);
  }
  const hipvmm_resource pool = result_of(hipvmm_torch_pool, peer.ordinal());
  CHECK(result_of(hipvmm_pool_access, pool, 0) == HIPVMM_RIGHT_READ_WRITE);
  require_ok(hipvmm_resource_destroy(pool));
}

TEST_CASE("torch.h: PyTorch's calls, by device, in any order and for nothing") {
  const stream own{first_device};
  CHECK(hipvmm_torch_alloc(0, 0, own.get()) == nullptr);
  hipvmm_torch_free(nullptr, 0, 0, own.get());
  void* const memory = hipvmm_torch_alloc(block, 0, own.get());
  CHECK(statistics_of(0).allocated_current == block);
  hipvmm_torch_record_stream(memory, own.get());
  hipvmm_torch_erase_stream(memory, own.get());
  int local = 0;
  hipvmm_torch_record_stream(&local, own.get());  // none of ours
  hipvmm_torch_free(memory, block, 0, own.get());
  hipvmm_resource pool = result_of(hipvmm_torch_pool, 0);
  // Threads of the library may not have seen yet that the work of earlier cases is over.
  first_device.synchronize();
  CHECK(comes_true([&] {
    hipvmm_torch_reset();
    return result_of(hipvmm_pool_get_statistics, pool).reserved_current == 0;
  }));
  require_ok(hipvmm_resource_destroy(pool));

  CHECK_THROWS_AS(hipvmm_torch_alloc(1, device_count(), nullptr), std::invalid_argument);
  CHECK_THROWS_AS(hipvmm_torch_alloc(1, -1, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(hipvmm_torch_memory_fraction(-1, 0), std::invalid_argument);
  CHECK(hipvmm_torch_pool(-1, &pool) == HIPVMM_ERROR_INVALID_ARGUMENT);
  hipvmm_torch_statistics without_size{};
  CHECK(hipvmm_torch_get_statistics(0, &without_size) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_torch_get_statistics(99, &without_size) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_torch_reset_peaks(99) == HIPVMM_ERROR_INVALID_ARGUMENT);
  hipvmm_torch_end_allocate_to_pool(0, graphs);
  hipvmm_torch_release_pool(0, graphs);
  hipvmm_torch_release_pool(-1, graphs);
}

TEST_CASE("torch.h: memory of a tag has functions of its own, and sleeps" * needs_virtual_memory) {
  int number = 77;
  CHECK(hipvmm_torch_tag(nullptr, &number) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_torch_tag("", &number) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_torch_tag("c_torch_1", nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(number == 77);
  CHECK_THROWS_WITH(hipvmm_torch_alloc_1(block, 0, nullptr),
                    doctest::Contains("no tag has this number"));
  for (int expected = 1; expected <= 8; ++expected) {
    const std::string name = "c_torch_" + std::to_string(expected);
    for (int twice = 0; twice < 2; ++twice) {
      CHECK(result_of(hipvmm_torch_tag, name.c_str()) == expected);
    }
  }
  CHECK(fails(hipvmm_torch_tag("c_torch_9", &number), HIPVMM_ERROR_OUT_OF_RANGE,
              "8 other tags have pools already"));

  const std::size_t before = statistics_of(0).allocated_current;
  void* const first = hipvmm_torch_alloc_1(block, 0, nullptr);
  void* const eighth = hipvmm_torch_alloc_8(block, 0, nullptr);
  CHECK(hipvmm_torch_alloc_8(0, 0, nullptr) == nullptr);
  CHECK(statistics_of(0).allocated_current == before);
  require_ok(hipvmm_fill_async(first, 'x', block, nullptr));
  std::size_t bytes = 0;
  const hipvmm_status slept = hipvmm_suspend("c_torch_1", HIPVMM_KEEP_CONTENTS, nullptr, &bytes);
  if (slept != HIPVMM_ERROR_UNSUPPORTED) {
    require_ok(slept);
    CHECK(bytes >= block);
    CHECK_THROWS_WITH(hipvmm_torch_alloc_1(block, 0, nullptr), doctest::Contains("sleeps"));
    void* const more = hipvmm_torch_alloc_8(block, 0, nullptr);
    hipvmm_torch_free_8(more, block, 0, nullptr);
    hipvmm_torch_reset();
    require_ok(hipvmm_resume("c_torch_1", nullptr));
  }
  char last = 0;
  require_ok(hipvmm_copy(&last, static_cast<char*>(first) + block - 1, 1, nullptr));
  CHECK(last == 'x');
  hipvmm_torch_free_1(first, block, 0, nullptr);
  hipvmm_torch_free_8(eighth, block, 0, nullptr);
  hipvmm_torch_free_8(nullptr, block, 0, nullptr);
  hipvmm_torch_reset();
}

TEST_CASE("torch.h: a limit is out_of_memory where there is no PyTorch to have its own error") {
  hipvmm_torch_memory_fraction(0, 0);
  CHECK_THROWS_AS(hipvmm_torch_alloc(1, 0, nullptr), out_of_memory);
  for (const double fraction : {1.0, 1e30, std::numeric_limits<double>::infinity()}) {
    CAPTURE(fraction);
    hipvmm_torch_memory_fraction(fraction, 0);
    hipvmm_torch_free(hipvmm_torch_alloc(1, 0, nullptr), 1, 0, nullptr);
  }
  CHECK_THROWS_AS(hipvmm_torch_memory_fraction(std::nan(""), 0), std::invalid_argument);
  c::throw_torch_out_of_memory("returns");
}

}  // namespace
}  // namespace hipvmm::test
