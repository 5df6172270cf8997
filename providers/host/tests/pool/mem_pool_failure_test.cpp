// SPDX-License-Identifier: MIT
// The state that functions of pools leave behind when the process has no memory for their own
// records: the first allocation of a call is made to fail, then the second, until the call makes no
// more.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include "mem_pool_fixtures.hpp"
#include "sharing_fixture.hpp"
#include "support/host/allocation_failure.hpp"

using namespace hipvmm::test;

namespace {

struct counts {
  explicit counts(const pool& source)
      : reserved{source.count(hipMemPoolAttrReservedMemCurrent)},
        used{source.count(hipMemPoolAttrUsedMemCurrent)} {}
  bool operator==(const counts&) const = default;
  std::uint64_t reserved;
  std::uint64_t used;
};

// Calls `function()` until no allocation of it fails any more, and `unchanged()` after each
// failure.
template <class Function, class Unchanged>
void sweep(Function function, Unchanged unchanged) {
  constexpr std::uint64_t most_allocations = 200;
  for (std::uint64_t nth = 1; nth < most_allocations; ++nth) {
    CAPTURE(nth);
    hipError_t error = hipSuccess;
    bool struck = false;
    {
      const allocation_failure plan{nth};
      error = function();
      struck = plan.struck();
    }
    if (!struck) {
      CHECK(nth > 1);
      CHECK(error == hipSuccess);
      return;
    }
    if (error == hipSuccess) return;  // it can do without
    CHECK(error == hipErrorOutOfMemory);
    unchanged();
  }
  FAIL("the function never succeeds");
}

template <class Function>
void sweep_pool(const pool& source, Function function) {
  const counts before{source};
  const hipvmm_host_counters objects = live_objects();
  sweep(function, [&] {
    CHECK(counts{source} == before);
    CHECK(live_objects() == objects);
  });
}

}  // namespace

TEST_CASE("hipFreeAsync: a call that runs out of memory frees nothing, the next one does") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends a process without memory for its records");
  const nothing_left check;
  const pool source;
  const stream work;
  std::byte* const block = source.allocate(mib, work.get());
  sweep_pool(source, [&] {
    const hipError_t error = hipFreeAsync(block, work.get());
    if (error != hipSuccess) CHECK(hipMemsetAsync(block, 1, mib, work.get()) == hipSuccess);
    return error;
  });
  CHECK(counts{source}.used == 0);
  CHECK(work.wait() == hipSuccess);
  CHECK(counts{source}.reserved == 0);
}

TEST_CASE("hipFree: a call that runs out of memory frees no block of a pool") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends a process without memory for its records");
  const nothing_left check;
  const pool source;
  std::byte* const block = source.allocate(mib, nullptr);
  sweep_pool(source, [&] { return hipFree(block); });
  CHECK(counts{source}.used == 0);
}

TEST_CASE("hipFreeAsync: the last block of a destroyed pool is freed whole or not at all") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends a process without memory for its records");
  const nothing_left check;
  pool source;
  const stream work;
  std::byte* const block = source.allocate(mib, work.get());
  REQUIRE(work.wait() == hipSuccess);
  source.destroy();
  sweep([&] { return hipFreeAsync(block, work.get()); },
        [&] { CHECK(fill_and_wait(block, 1, mib) == hipSuccess); });
  CHECK(hipFreeAsync(block, work.get()) == hipErrorInvalidValue);
}

TEST_CASE("hipMallocFromPoolAsync: a call that runs out of memory takes nothing") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends a process without memory for its records");
  const nothing_left check;
  const pool source{pool_on(0, posix)};
  void* block = nullptr;
  sweep_pool(source, [&] { return hipMallocFromPoolAsync(&block, mib, source.get(), nullptr); });
  free_in(block, nullptr);
}

TEST_CASE("hipMallocFromPoolAsync: a call that runs out of memory leaves idle blocks idle") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends a process without memory for its records");
  const nothing_left check;
  const pool source;
  const stream work;
  source.set(hipMemPoolAttrReleaseThreshold, UINT64_MAX);
  std::byte* const idle = source.allocate(mib, work.get());
  free_in(idle, work.get());
  void* block = nullptr;
  sweep_pool(source, [&] { return hipMallocFromPoolAsync(&block, mib, source.get(), work.get()); });
  CHECK(block == idle);
  free_in(block, work.get());
}

TEST_CASE("hipMallocFromPoolAsync: a call that runs out of memory leaves pending blocks pending") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends a process without memory for its records");
  const nothing_left check;
  const pool source;
  const stream second;
  source.allow_only({hipMemPoolReuseAllowInternalDependencies});
  pending_free freed{source, device_budget};
  void* block = nullptr;
  sweep_pool(source, [&] {
    return hipMallocFromPoolAsync(&block, device_budget, source.get(), second.get());
  });
  CHECK(block == freed.block);
  free_in(block, second.get());
  freed.ahead.open();
  CHECK(second.wait() == hipSuccess);
}

TIDY_CASE("hipMemPoolCreate: a call that runs out of memory makes no pool") {
  const hipMemPoolProps properties = pool_on(0, posix);
  const hipvmm_host_counters before = live_objects();
  hipMemPool_t made = nullptr;
  sweep([&] { return hipMemPoolCreate(&made, &properties); },
        [&] { CHECK(live_objects() == before); });
  CHECK(hipMemPoolDestroy(made) == hipSuccess);
}

TIDY_CASE("hipMemPoolImportPointer: a call that runs out of memory imports nothing") {
  const pool source{pool_on(0, posix)};
  std::byte* const block = source.allocate(mib, nullptr);
  hipMemPoolPtrExportData sent{};
  REQUIRE(hipMemPoolExportPointer(&sent, block) == hipSuccess);
  int descriptor = -1;
  REQUIRE(hipMemPoolExportToShareableHandle(&descriptor, source.get(), posix, 0) == hipSuccess);
  hipMemPool_t imported = nullptr;
  REQUIRE(hipMemPoolImportFromShareableHandle(&imported, by_value(descriptor), posix, 0) ==
          hipSuccess);
  ::close(descriptor);
  const hipvmm_host_counters before = live_objects();
  void* other = nullptr;
  sweep([&] { return hipMemPoolImportPointer(&other, imported, &sent); },
        [&] {
          std::uint64_t reserved = 99;
          CHECK(hipMemPoolGetAttribute(imported, hipMemPoolAttrReservedMemCurrent, &reserved) ==
                hipSuccess);
          CHECK(reserved == 0);
          CHECK(live_objects() == before);
        });
  CHECK(hipFree(other) == hipSuccess);
  CHECK(hipMemPoolDestroy(imported) == hipSuccess);
  free_in(block, nullptr);
}
