// SPDX-License-Identifier: MIT
// graph_pool if the host has no memory left for one allocation after another.
#include <hipvmm/mr/pool/graph_pool.hpp>
#include "mr/mr_test.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t one_segment = 10 * MiB;  // a segment
constexpr std::uint64_t most_allocations = 200;

/// A capture whose second stream is behind a free of the first, with `nth` to fail in both steps.
void capture_with_failure(std::uint64_t nth, bool& struck) {
  CAPTURE(nth);
  struck = false;
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, {.initial_bytes = 64 * MiB}};
  mr::graph_pool graphs{&pool};
  const stream own{first_device};
  const stream side{first_device};
  const event reached{first_device};
  REQUIRE(hipStreamBeginCapture(own.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  void* const first = graphs.allocate(own, one_segment);
  fill_async(own, first, 1, one_segment);
  {
    const allocation_failure failing{nth};
    graphs.deallocate(own, first, one_segment);
    struck = failing.struck();
  }
  // At worst it serves the next capture.
  CHECK(graphs.statistics().used_bytes == 0);
  REQUIRE(hipEventRecord(reached.get(), own.get()) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(side.get(), reached.get(), 0) == hipSuccess);
  void* second = nullptr;
  {
    const allocation_failure failing{nth};
    try {
      second = graphs.allocate(side, 4 * MiB);
    } catch (const std::bad_alloc&) {
    } catch (const hip_error&) {
    }
    struck = struck || failing.struck();
  }
  CHECK((second != nullptr || struck));
  CHECK(graphs.statistics().used_bytes == (second == nullptr ? 0 : 4 * MiB));
  CHECK(graphs.statistics().held_bytes == pool.statistics().used_current);
  if (second != nullptr) graphs.deallocate(side, second, 4 * MiB);
  CHECK(graphs.statistics().used_bytes == 0);
  REQUIRE(hipEventRecord(reached.get(), side.get()) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(own.get(), reached.get(), 0) == hipSuccess);
  CHECK(graphs.allocate(own, one_segment) != nullptr);
  end_capture(own.get());
  graphs.release();
  CHECK(pool.statistics().used_current == 0);
}

TEST_CASE("graph_pool: a lack of host memory leaves what there was") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it lacks host memory itself");
  bool struck = true;
  std::uint64_t nth = 1;
  for (; struck && nth < most_allocations; ++nth) capture_with_failure(nth, struck);
  CHECK(nth > 2);
  CHECK(nth < most_allocations);
}

TEST_CASE("graph_pool: the thousandth capture needs no more host memory than the second") {
  mr::vmm_pool_resource pool{first_device, {.initial_bytes = 32 * MiB}};
  mr::graph_pool graphs{&pool};
  const stream own{first_device};
  const stream oldest{first_device};
  const auto begin = [](stream_ref captured) {
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  };
  begin(oldest);
  graphs.deallocate_sync(graphs.allocate(oldest, one_segment), one_segment);
  for (int count = 2; count <= 1000; ++count) {
    CAPTURE(count);
    begin(own);
    {
      const allocation_failure failing{1};
      graphs.deallocate_sync(graphs.allocate(own, one_segment), one_segment);
    }
    end_capture(own.get());
  }
  CHECK(graphs.statistics().captures == 1000);
  CHECK_THROWS_AS(graphs.allocate(oldest, one_segment), std::logic_error);
  end_capture(oldest.get());
}

}  // namespace
}  // namespace hipvmm::test
