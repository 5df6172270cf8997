// SPDX-License-Identifier: MIT
// Copies and fills that were right when they were submitted and are not when they run.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <functional>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

using submission = std::function<hipError_t(hipStream_t)>;

// Submits work, changes the world before it may run, and gives the stream's code afterwards.
hipError_t outcome(const submission& submit, const std::function<void()>& change) {
  const stream work;
  {
    const unordered_on_purpose what_runs_finds_the_world_changed;
    const held_streams held;
    REQUIRE(submit(work.get()) == hipSuccess);
    change();
  }
  const hipError_t result = work.wait();
  CHECK(work.wait() == hipSuccess);  // an error is reported once
  return result;
}

}  // namespace

TIDY_CASE("transfer: memory unmapped before its turn makes the work fail") {
  const pinned host{granule};
  const auto with_unmapped = [&](const std::function<hipError_t(std::byte*, hipStream_t)>& work) {
    mapped mapping{granule};
    return outcome([&](hipStream_t on) { return work(mapping.at(), on); },
                   [&] { mapping.unmap(); });
  };
  CHECK(with_unmapped([&](std::byte* at, hipStream_t on) {
          return hipMemcpyAsync(at, host.at(), granule, hipMemcpyHostToDevice, on);
        }) == hipErrorIllegalAddress);
  CHECK(with_unmapped([&](std::byte* at, hipStream_t on) {
          return hipMemcpyAsync(host.at(), at, granule, hipMemcpyDeviceToHost, on);
        }) == hipErrorIllegalAddress);
  CHECK(with_unmapped([&](std::byte* at, hipStream_t on) {
          return hipMemcpyPeerAsync(host.at(), 0, at, 0, granule, on);
        }) == hipErrorIllegalAddress);
  CHECK(with_unmapped([](std::byte* at, hipStream_t on) {
          return hipMemsetAsync(at, 1, granule, on);
        }) == hipErrorIllegalAddress);
}

TIDY_CASE("transfer: memory whose addresses were freed too makes the work fail") {
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, granule, 0, nullptr, 0) == hipSuccess);
  {
    const memory chunk{granule};
    REQUIRE(hipMemMap(start, granule, 0, chunk.get(), 0) == hipSuccess);
  }
  const hipMemAccessDesc wanted = access_of(0);
  REQUIRE(hipMemSetAccess(start, granule, &wanted, 1) == hipSuccess);
  CHECK(outcome([&](hipStream_t on) { return hipMemsetAsync(start, 1, granule, on); },
                [&] {
                  REQUIRE(hipMemUnmap(start, granule) == hipSuccess);
                  REQUIRE(hipMemAddressFree(start, granule) == hipSuccess);
                }) == hipErrorIllegalAddress);
}

TIDY_CASE("transfer: a right revoked before its turn makes the work fail") {
  const pinned host{granule};
  const mapped mapping{granule};
  const submission write = [&](hipStream_t on) {
    return hipMemcpyAsync(mapping.at(), host.at(), granule, hipMemcpyHostToDevice, on);
  };
  const submission read = [&](hipStream_t on) {
    return hipMemcpyAsync(host.at(), mapping.at(), granule, hipMemcpyDeviceToHost, on);
  };
  const auto leave_read = [&] { mapping.give(0, hipMemAccessFlagsProtRead); };
  const auto leave_none = [&] { mapping.give(0, hipMemAccessFlagsProtNone); };
  CHECK(outcome(write, leave_read) == hipErrorIllegalAddress);
  CHECK(outcome(read, leave_read) == hipSuccess);
  CHECK(outcome(read, leave_none) == hipErrorIllegalAddress);
}

TIDY_CASE("transfer: a right revoked from one device leaves the work of another alone") {
  const mapped mapping{granule, {0, 1}};
  CHECK(outcome([&](hipStream_t on) { return hipMemsetAsync(mapping.at(), 4, granule, on); },
                [&] { mapping.give(1, hipMemAccessFlagsProtNone); }) == hipSuccess);
  CHECK(equal(mapping.at(), bytes_of(granule, 4)));
}

TIDY_CASE("transfer: peer access disabled before its turn makes a fill fail") {
  const allocation of_1{64, 1};
  REQUIRE(hipDeviceEnablePeerAccess(1, 0) == hipSuccess);
  CHECK(outcome([&](hipStream_t on) { return hipMemsetAsync(of_1.at(), 1, 64, on); },
                [] { REQUIRE(hipDeviceDisablePeerAccess(1) == hipSuccess); }) ==
        hipErrorIllegalAddress);
}

TIDY_CASE("transfer: work that fails has done what came before the bad byte") {
  const reservation addresses{2 * granule};
  const hipMemAccessDesc wanted = access_of(0);
  for (std::size_t i = 0; i < 2; ++i) {
    const memory chunk{granule};
    REQUIRE(hipMemMap(addresses.at(i * granule), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  REQUIRE(hipMemSetAccess(addresses.at(), 2 * granule, &wanted, 1) == hipSuccess);
  CHECK(outcome([&](hipStream_t on) { return hipMemsetAsync(addresses.at(), 5, 2 * granule, on); },
                [&] { REQUIRE(hipMemUnmap(addresses.at(granule), granule) == hipSuccess); }) ==
        hipErrorIllegalAddress);
  CHECK(equal(addresses.at(), bytes_of(granule, 5)));
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
}

TIDY_CASE("transfer: new memory at the same address takes part in waiting work") {
  const reservation addresses{granule};
  const hipMemAccessDesc wanted = access_of(0);
  const auto map_new = [&] {
    const memory chunk{granule};
    REQUIRE(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(addresses.at(), granule, &wanted, 1) == hipSuccess);
  };
  map_new();
  CHECK(outcome([&](hipStream_t on) { return hipMemsetAsync(addresses.at(), 6, 64, on); },
                [&] {
                  REQUIRE(hipMemUnmap(addresses.at(), granule) == hipSuccess);
                  map_new();
                }) == hipSuccess);
  CHECK(*addresses.at() == std::byte{6});
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
}

TIDY_CASE("transfer: later work of the stream runs after a failure") {
  mapped bad{granule};
  const mapped good{granule};
  CHECK(outcome(
            [&](hipStream_t on) {
              REQUIRE(hipMemsetAsync(bad.at(), 1, 64, on) == hipSuccess);
              return hipMemsetAsync(good.at(), 7, 64, on);
            },
            [&] { bad.unmap(); }) == hipErrorIllegalAddress);
  CHECK(*good.at() == std::byte{7});
}

TEST_CASE("transfer: an error is told by the first call that waits, and is then the last error") {
  struct row {
    const char* name;
    hipError_t (*wait)(hipStream_t, hipEvent_t);
  };
  for (const row& each :
       {row{"hipStreamSynchronize",
            [](hipStream_t on, hipEvent_t) { return hipStreamSynchronize(on); }},
        row{"hipStreamQuery", [](hipStream_t on, hipEvent_t) { return hipStreamQuery(on); }},
        row{"hipStreamSynchronize of the null stream",
            [](hipStream_t, hipEvent_t) { return hipStreamSynchronize(nullptr); }},
        row{"hipStreamQuery of the null stream",
            [](hipStream_t, hipEvent_t) { return hipStreamQuery(nullptr); }},
        row{"hipDeviceSynchronize", [](hipStream_t, hipEvent_t) { return hipDeviceSynchronize(); }},
        row{"hipEventSynchronize",
            [](hipStream_t, hipEvent_t at) { return hipEventSynchronize(at); }},
        row{"hipEventQuery", [](hipStream_t, hipEvent_t at) { return hipEventQuery(at); }}}) {
    CAPTURE(each.name);
    const nothing_left check;
    const stream work{hipStreamDefault};
    const event done;
    mapped mapping{granule};
    {
      const unordered_on_purpose makes_the_work_fail;
      const held_streams held;
      REQUIRE(hipMemsetAsync(mapping.at(), 1, 64, work.get()) == hipSuccess);
      REQUIRE(hipEventRecord(done.get(), work.get()) == hipSuccess);
      mapping.unmap();
    }
    float milliseconds = 0;  // asking for the time tells when the work is over, and no error
    while (hipEventElapsedTime(&milliseconds, done.get(), done.get()) == hipErrorNotReady) {
    }
    CHECK(each.wait(work.get(), done.get()) == hipErrorIllegalAddress);
    CHECK(hipGetLastError() == hipErrorIllegalAddress);
    CHECK(each.wait(work.get(), done.get()) == hipSuccess);
  }
}

TIDY_CASE("transfer: the error of a destroyed stream is told by the device") {
  mapped mapping{granule};
  {
    const unordered_on_purpose makes_the_work_fail;
    const held_streams held;
    const stream work;
    REQUIRE(hipMemsetAsync(mapping.at(), 1, 64, work.get()) == hipSuccess);
    mapping.unmap();
  }
  CHECK(hipDeviceSynchronize() == hipErrorIllegalAddress);
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

TIDY_CASE("transfer: an event of the null stream tells the errors of blocking streams alone") {
  const stream blocking{hipStreamDefault};
  const stream independent;
  const event behind;
  mapped mapping{granule};
  {
    const unordered_on_purpose makes_the_work_fail;
    const held_streams held;
    for (const hipStream_t each : {blocking.get(), independent.get()}) {
      REQUIRE(hipMemsetAsync(mapping.at(), 1, 64, each) == hipSuccess);
    }
    REQUIRE(hipEventRecord(behind.get(), nullptr) == hipSuccess);
    mapping.unmap();
  }
  CHECK(hipEventSynchronize(behind.get()) == hipErrorIllegalAddress);
  CHECK(blocking.wait() == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(independent.wait() == hipErrorIllegalAddress);
}

TIDY_CASE("transfer: waiting for the null stream leaves the errors of other devices alone") {
  const stream of_1{hipStreamDefault, 1};
  mapped mapping{granule, {1}, 1};
  {
    const unordered_on_purpose makes_the_work_fail;
    const held_streams held;
    REQUIRE(hipMemsetAsync(mapping.at(), 1, 64, of_1.get()) == hipSuccess);
    mapping.unmap();
  }
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(of_1.wait() == hipErrorIllegalAddress);
}
