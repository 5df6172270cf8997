// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

void order_after(hipStream_t later, hipStream_t earlier) {
  const event mark;
  REQUIRE(hipEventRecord(mark.get(), earlier) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(later, mark.get(), 0) == hipSuccess);
}

}  // namespace

POOL_CASE("mem_pool: work submitted after the allocation uses it though nothing has run yet") {
  const stream work;
  roadblock ahead{work.get()};
  std::byte* const block = source.allocate(mib, work.get());
  REQUIRE(hipMemsetAsync(block, 7, mib, work.get()) == hipSuccess);
  free_in(block, work.get());
  ahead.open();
  CHECK(work.wait() == hipSuccess);
}

POOL_CASE("mem_pool: another stream that overtakes the allocation fails") {
  const stream work;
  const stream other;
  roadblock ahead{work.get()};
  std::byte* const block = source.allocate(mib, work.get());
  {
    const unordered_on_purpose overtakes_the_allocation;
    CHECK(hipMemsetAsync(block, 7, mib, other.get()) == hipSuccess);
  }
  CHECK(other.wait() == hipErrorIllegalAddress);
  ahead.open();
  CHECK(hipMemsetAsync(block, 7, mib, other.get()) == hipSuccess);
  CHECK(other.wait() == hipSuccess);
  free_in(block, work.get());
}

POOL_CASE("mem_pool: work submitted before the free, in a stream that runs after it, fails") {
  const stream work;
  const stream late;
  std::byte* const block = source.allocate(mib, work.get());
  roadblock ahead{late.get()};
  {
    const unordered_on_purpose comes_too_late;
    REQUIRE(hipMemsetAsync(block, 7, mib, late.get()) == hipSuccess);
  }
  free_in(block, work.get());
  ahead.open(hipErrorIllegalAddress);
}

POOL_CASE("mem_pool: work submitted after the free is refused") {
  pending_free freed{source};
  CHECK(hipMemsetAsync(freed.block, 7, mib, freed.first.get()) == hipErrorInvalidValue);
  CHECK(hipMemcpy(freed.block, freed.block, 1, hipMemcpyDefault) == hipErrorInvalidValue);
}

POOL_CASE("mem_pool: a block that is freed has no attributes") {
  std::byte* const block = source.allocate(100, nullptr);
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  CHECK(hipMemGetAddressRange(&base, &bytes, block + 99) == hipSuccess);
  CHECK(base == block);
  CHECK(bytes == 100);
  free_in(block, nullptr);
  CHECK(hipMemGetAddressRange(&base, &bytes, block) == hipErrorNotFound);
}

POOL_CASE("mem_pool: bytes beyond those asked for are refused") {
  std::byte* const block = source.allocate(100, nullptr);
  CHECK(hipMemset(block, 0, 100) == hipSuccess);
  CHECK(hipMemset(block, 0, 101) == hipErrorInvalidValue);
  free_in(block, nullptr);
}

POOL_CASE("mem_pool: the stream of the free gets the block again at once") {
  source.allow_only({});
  pending_free freed{source};
  CHECK(source.allocate(mib, freed.first.get()) == freed.block);
  free_in(freed.block, freed.first.get());
}

POOL_CASE("mem_pool: work of the earlier holder still finds the block when it runs") {
  const stream work;
  const pinned seen{2};
  std::byte* const block = source.allocate(mib, work.get());
  roadblock ahead{work.get()};
  REQUIRE(hipMemsetAsync(block, 1, mib, work.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(seen.at(), block + mib - 1, 1, hipMemcpyDefault, work.get()) ==
          hipSuccess);
  free_in(block, work.get());
  const std::size_t smaller = mib - mib / 16;
  REQUIRE(source.allocate(smaller, work.get()) == block);
  REQUIRE(hipMemsetAsync(block, 2, smaller, work.get()) == hipSuccess);
  REQUIRE(hipMemcpyAsync(seen.at(1), block, 1, hipMemcpyDefault, work.get()) == hipSuccess);
  free_in(block, work.get());
  ahead.open();
  CHECK(work.wait() == hipSuccess);
  CHECK(*seen.at(0) == std::byte{1});
  CHECK(*seen.at(1) == std::byte{2});
}

POOL_CASE("mem_pool: a block more than an eighth larger than asked for is not lent") {
  const stream work;
  source.set(hipMemPoolAttrReleaseThreshold, 64 * mib);
  std::byte* const block = source.allocate(9 * mib, work.get());
  free_in(block, work.get());
  std::byte* const other = source.allocate(8 * mib - 1, work.get());
  CHECK(other != block);
  CHECK(source.allocate(8 * mib, work.get()) == block);
  free_in(block, work.get());
  free_in(other, work.get());
}

POOL_CASE("mem_pool: of the blocks that would do the smallest is lent") {
  const stream work;
  std::byte* const large = source.allocate(17 * mib, work.get());
  std::byte* const small = source.allocate(16 * mib + 1, work.get());
  free_in(large, work.get());
  free_in(small, work.get());
  CHECK(source.allocate(16 * mib, work.get()) == small);
  free_in(small, work.get());
}

POOL_CASE("mem_pool: a stream that waits for an event behind the free gets the block") {
  source.allow_only({hipMemPoolReuseFollowEventDependencies});
  pending_free freed{source};
  const stream second;
  order_after(second.get(), freed.first.get());
  CHECK(source.allocate(mib, second.get()) == freed.block);
  REQUIRE(hipMemsetAsync(freed.block, 3, mib, second.get()) == hipSuccess);
  free_in(freed.block, second.get());
  freed.ahead.open();
  CHECK(second.wait() == hipSuccess);
}

POOL_CASE("mem_pool: a chain of events over a third stream counts") {
  source.allow_only({hipMemPoolReuseFollowEventDependencies});
  pending_free freed{source};
  const stream middle;
  const stream last;
  order_after(middle.get(), freed.first.get());
  order_after(last.get(), middle.get());
  CHECK(source.allocate(mib, last.get()) == freed.block);
  free_in(freed.block, last.get());
  freed.ahead.open();
  CHECK(last.wait() == hipSuccess);
}

POOL_CASE("mem_pool: an event before the free does not count") {
  source.allow_only({hipMemPoolReuseFollowEventDependencies});
  const stream first;
  const stream second;
  std::byte* const block = source.allocate(mib, first.get());
  roadblock ahead{first.get()};
  order_after(second.get(), first.get());
  free_in(block, first.get());
  std::byte* const other = source.allocate(mib, second.get());
  CHECK(other != block);
  free_in(other, second.get());
}

POOL_CASE("mem_pool: events do not count where the pool does not follow them") {
  source.allow_only({hipMemPoolReuseAllowOpportunistic});
  pending_free freed{source};
  const stream second;
  order_after(second.get(), freed.first.get());
  std::byte* const other = source.allocate(mib, second.get());
  CHECK(other != freed.block);
  free_in(other, second.get());
}

POOL_CASE("mem_pool: the null stream's rules count as events do") {
  source.allow_only({hipMemPoolReuseFollowEventDependencies});
  const stream blocking{hipStreamDefault};
  std::byte* const block = source.allocate(mib, blocking.get());
  roadblock ahead{blocking.get()};
  free_in(block, blocking.get());
  CHECK(source.allocate(mib, nullptr) == block);
  free_in(block, nullptr);
}

POOL_CASE("mem_pool: a free that has been reached lends to any stream") {
  source.allow_only({hipMemPoolReuseAllowOpportunistic});
  const stream first;
  const stream second;
  std::byte* const block = source.allocate(mib, first.get());
  free_in(block, first.get());
  CHECK(source.allocate(mib, second.get()) == block);
  free_in(block, second.get());
}

POOL_CASE("mem_pool: a free that has not been reached lends to no unordered stream") {
  pending_free freed{source};
  const stream second;
  std::byte* const other = source.allocate(mib, second.get());
  CHECK(other != freed.block);
  free_in(other, second.get());
}

POOL_CASE("mem_pool: a free that has been reached lends to nobody else with all switches off") {
  source.allow_only({});
  const stream first;
  const stream second;
  std::byte* const block = source.allocate(mib, first.get());
  free_in(block, first.get());
  std::byte* const other = source.allocate(mib, second.get());
  CHECK(other != block);
  free_in(other, second.get());
}

POOL_CASE("mem_pool: with no memory left the stream is made to wait for another's free") {
  const stream second;
  {
    pending_free freed{source, device_budget};
    std::byte* const block = source.allocate(mib, second.get());
    CHECK(block == freed.block);
    REQUIRE(hipMemsetAsync(block, 3, mib, second.get()) == hipSuccess);
    CHECK(hipStreamQuery(second.get()) == hipErrorNotReady);
    freed.ahead.open();
    CHECK(second.wait() == hipSuccess);
    free_in(block, second.get());
  }
}

POOL_CASE("mem_pool: with no memory left and no waiting allowed there is none") {
  source.allow_only({hipMemPoolReuseFollowEventDependencies, hipMemPoolReuseAllowOpportunistic});
  const stream second;
  pending_free freed{source, device_budget};
  void* pointer = nullptr;
  CHECK(hipMallocFromPoolAsync(&pointer, mib, source.get(), second.get()) == hipErrorOutOfMemory);
}
