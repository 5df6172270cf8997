// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

hipMemAccessFlags access_to(const pool& asked, int device) {
  hipMemAccessFlags flags{};
  hipMemLocation location{hipMemLocationTypeDevice, device};
  REQUIRE(hipMemPoolGetAccess(&flags, asked.get(), &location) == hipSuccess);
  return flags;
}

void give(const pool& changed, int device,
          hipMemAccessFlags flags = hipMemAccessFlagsProtReadWrite) {
  const hipMemAccessDesc wanted = access_of(device, flags);
  REQUIRE(hipMemPoolSetAccess(changed.get(), &wanted, 1) == hipSuccess);
}

}  // namespace

TIDY_CASE("mem_pool: only its own device has access at first") {
  const pool fresh{pool_on(1)};
  CHECK(access_to(fresh, 0) == hipMemAccessFlagsProtNone);
  CHECK(access_to(fresh, 1) == hipMemAccessFlagsProtReadWrite);
  CHECK(access_to(fresh, 2) == hipMemAccessFlagsProtNone);
}

POOL_CASE("mem_pool: a device without access is refused") {
  const stream other{hipStreamNonBlocking, 1};
  std::byte* const block = source.allocate(mib, nullptr);
  CHECK(hipMemsetAsync(block, 1, mib, other.get()) == hipErrorInvalidValue);
  CHECK(hipMemcpyAsync(block, block + 64, 64, hipMemcpyDefault, other.get()) ==
        hipErrorInvalidValue);
  free_in(block, nullptr);
}

POOL_CASE("hipMemPoolSetAccess: opens memory in use and memory allocated later") {
  const stream other{hipStreamNonBlocking, 1};
  std::byte* const before = source.allocate(mib, nullptr);
  give(source, 1);
  std::byte* const after = source.allocate(mib, nullptr);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(hipMemsetAsync(before, 1, mib, other.get()) == hipSuccess);
  CHECK(hipMemsetAsync(after, 1, mib, other.get()) == hipSuccess);
  CHECK(other.wait() == hipSuccess);
  free_in(before, nullptr);
  free_in(after, nullptr);
}

POOL_CASE("hipMemPoolSetAccess: reading alone lets a device read and not write") {
  const stream other{hipStreamNonBlocking, 1};
  const pinned host{64};
  std::byte* const block = source.allocate(64, nullptr);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  give(source, 1, hipMemAccessFlagsProtRead);
  CHECK(access_to(source, 1) == hipMemAccessFlagsProtRead);
  CHECK(hipMemcpyAsync(host.at(), block, 64, hipMemcpyDefault, other.get()) == hipSuccess);
  CHECK(hipMemcpyAsync(block, host.at(), 64, hipMemcpyDefault, other.get()) ==
        hipErrorInvalidValue);
  CHECK(other.wait() == hipSuccess);
  free_in(block, nullptr);
}

POOL_CASE("hipMemPoolSetAccess: takes access from a peer again") {
  const stream other{hipStreamNonBlocking, 1};
  std::byte* const block = source.allocate(mib, nullptr);
  give(source, 1);
  give(source, 1, hipMemAccessFlagsProtNone);
  CHECK(access_to(source, 1) == hipMemAccessFlagsProtNone);
  CHECK(hipMemsetAsync(block, 1, mib, other.get()) == hipErrorInvalidValue);
  free_in(block, nullptr);
}

POOL_CASE("hipMemPoolSetAccess: work in a queue fails when access is gone at its turn") {
  const stream other{hipStreamNonBlocking, 1};
  std::byte* const block = source.allocate(mib, nullptr);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  give(source, 1);
  roadblock ahead{other.get()};
  REQUIRE(hipMemsetAsync(block, 1, mib, other.get()) == hipSuccess);
  {
    const unordered_on_purpose makes_the_work_fail;
    give(source, 1, hipMemAccessFlagsProtNone);
  }
  ahead.open(hipErrorIllegalAddress);
  free_in(block, nullptr);
}

POOL_CASE("hipMemPoolSetAccess: no descriptors change nothing") {
  const hipMemAccessDesc unused = access_of(9);
  CHECK(hipMemPoolSetAccess(source.get(), &unused, 0) == hipSuccess);
  CHECK(access_to(source, 0) == hipMemAccessFlagsProtReadWrite);
}

POOL_CASE("mem_pool: another device's stream may allocate what it may not touch") {
  const stream other{hipStreamNonBlocking, 1};
  std::byte* const block = source.allocate(mib, other.get());
  CHECK(hipvmm_host_device_bytes(0) == mib);
  CHECK(hipMemsetAsync(block, 1, mib, other.get()) == hipErrorInvalidValue);
  REQUIRE(other.wait() == hipSuccess);
  CHECK(fill_and_wait(block, 1, mib) == hipSuccess);
  free_in(block, other.get());
}

TIDY_CASE("mem_pool: pointers say that they are device memory of its device") {
  const pool source{pool_on(1)};
  std::byte* const block = source.allocate(64, nullptr);
  hipPointerAttribute_t attributes{};
  REQUIRE(hipPointerGetAttributes(&attributes, block + 63) == hipSuccess);
  CHECK(attributes.device == 1);
  CHECK(attributes.devicePointer == block + 63);
  CHECK(attributes.hostPointer == nullptr);
  free_in(block, nullptr);
}
