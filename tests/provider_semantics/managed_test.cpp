// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

// Little, since a driver in trouble with managed memory takes the machine with it.
constexpr std::size_t managed_bytes = std::size_t{64} << 10U;

struct managed : ended_memory<hipFree> {
  managed() { REQUIRE(hipMallocManaged(&handle, managed_bytes, hipMemAttachGlobal) == hipSuccess); }
};

hipError_t allocate(std::size_t bytes, unsigned flags) {
  void* start = nullptr;
  const hipError_t code = hipMallocManaged(&start, bytes, flags);
  if (code == hipSuccess) REQUIRE(hipFree(start) == hipSuccess);
  return code;
}

hipError_t advise(const void* start, int advice, int device, std::size_t bytes = managed_bytes) {
  return hipMemAdvise(start, bytes, no_such<hipMemoryAdvise>(advice), device);
}

int told(const managed& memory, hipMemRangeAttribute attribute) {
  int value = 99;
  REQUIRE(hipMemRangeGetAttribute(&value, sizeof(value), attribute, memory.get(), managed_bytes) ==
          hipSuccess);
  return value;
}

}  // namespace

TEST_CASE("managed memory: its arguments") {
  check_rules({
      {"for all", [] { return allocate(managed_bytes, hipMemAttachGlobal); }, hipSuccess},
      {"for the host", [] { return allocate(managed_bytes, hipMemAttachHost); }, hipSuccess},
      {"for both", [] { return allocate(managed_bytes, 3); }},
      {"for nobody", [] { return allocate(managed_bytes, 0); }},
      {"no bytes", [] { return allocate(0, hipMemAttachGlobal); }},
  });
}

TEST_CASE("managed memory: advice and its arguments") {
  const managed memory;
  const allocation plain{4096};
  const void* const at = memory.get();
  check_rules({
      {"read mostly", [&] { return advise(at, hipMemAdviseSetReadMostly, 0); }, hipSuccess},
      {"read mostly, no such device",
       [&] { return advise(at, hipMemAdviseSetReadMostly, no_device); }, hipSuccess},
      {"no longer", [&] { return advise(at, hipMemAdviseUnsetReadMostly, 0); }, hipSuccess},
      {"preferred", [&] { return advise(at, hipMemAdviseSetPreferredLocation, 0); }, hipSuccess},
      {"preferred on the host",
       [&] { return advise(at, hipMemAdviseSetPreferredLocation, hipCpuDeviceId); }, hipSuccess},
      {"no longer preferred", [&] { return advise(at, hipMemAdviseUnsetPreferredLocation, 0); },
       hipSuccess},
      {"accessed by", [&] { return advise(at, hipMemAdviseSetAccessedBy, 0); }, hipSuccess},
      {"no longer accessed", [&] { return advise(at, hipMemAdviseUnsetAccessedBy, 0); },
       hipSuccess},
      {"coarse grain", [&] { return advise(at, hipMemAdviseSetCoarseGrain, 0); },
       answer::not_imitated(hipSuccess, hipErrorNotSupported)},
      {"unknown advice", [&] { return advise(at, 50, 0); }},
      {"no such device", [&] { return advise(at, hipMemAdviseSetAccessedBy, no_device); },
       hipErrorInvalidDevice},
      {"memory of hipMalloc",
       [&] { return advise(plain.get(), hipMemAdviseSetReadMostly, 0, 64); }},
      {"past the end", [&] { return advise(at, hipMemAdviseSetReadMostly, 0, 2 * managed_bytes); }},
      {"null", [] { return advise(nullptr, hipMemAdviseSetReadMostly, 0); }},
      {"no bytes", [&] { return advise(at, hipMemAdviseSetReadMostly, 0, 0); }},
  });
}

TEST_CASE("managed memory: advice is told") {
  const managed memory;
  CHECK(told(memory, hipMemRangeAttributeReadMostly) == 0);
  CHECK(told(memory, hipMemRangeAttributePreferredLocation) == hipInvalidDeviceId);
  CHECK(told(memory, hipMemRangeAttributeLastPrefetchLocation) == hipInvalidDeviceId);
  CHECK(told(memory, hipMemRangeAttributeAccessedBy) == hipInvalidDeviceId);
  REQUIRE(advise(memory.get(), hipMemAdviseSetReadMostly, 0) == hipSuccess);
  CHECK(told(memory, hipMemRangeAttributeReadMostly) == 1);
  REQUIRE(advise(memory.get(), hipMemAdviseSetPreferredLocation, 0) == hipSuccess);
  CHECK(told(memory, hipMemRangeAttributePreferredLocation) == 0);
  REQUIRE(advise(memory.get(), hipMemAdviseSetPreferredLocation, hipCpuDeviceId) == hipSuccess);
  CHECK(told(memory, hipMemRangeAttributePreferredLocation) == hipCpuDeviceId);
  REQUIRE(advise(memory.get(), hipMemAdviseSetAccessedBy, 0) == hipSuccess);
  CHECK(told(memory, hipMemRangeAttributeAccessedBy) == 0);
}

TEST_CASE_FIXTURE(managed, "managed memory: questions and their arguments") {
  int value = 0;
  const auto ask = [&](int attribute, std::size_t bytes = sizeof(int)) {
    return hipMemRangeGetAttribute(&value, bytes, no_such<hipMemRangeAttribute>(attribute), get(),
                                   managed_bytes);
  };
  void* answers[] = {&value};
  std::size_t sizes[] = {sizeof(value)};
  hipMemRangeAttribute wanted[] = {hipMemRangeAttributeReadMostly};
  check_rules({
      {"coherency", [&] { return ask(hipMemRangeAttributeCoherencyMode); },
       answer::not_imitated(hipSuccess, hipErrorNotSupported)},
      {"unknown", [&] { return ask(77); }},
      {"an answer of two bytes", [&] { return ask(hipMemRangeAttributeReadMostly, 2); }},
      {"several",
       [&] { return hipMemRangeGetAttributes(answers, sizes, wanted, 1, get(), managed_bytes); },
       hipSuccess},
      {"of none",
       [&] { return hipMemRangeGetAttributes(answers, sizes, wanted, 0, get(), managed_bytes); }},
  });
}

TEST_CASE("managed memory: prefetches and their arguments") {
  const managed memory;
  const allocation plain{4096};
  const auto prefetch = [&](const void* at, int device) {
    return hipMemPrefetchAsync(at, 4096, device, nullptr);
  };
  check_rules({
      {"to the device", [&] { return prefetch(memory.get(), 0); }, hipSuccess},
      {"to the host", [&] { return prefetch(memory.get(), hipCpuDeviceId); }, hipSuccess},
      {"to no such device", [&] { return prefetch(memory.get(), no_device); },
       hipErrorInvalidDevice},
      {"of memory of hipMalloc", [&] { return prefetch(plain.get(), 0); }},
      {"of null", [&] { return prefetch(nullptr, 0); }},
  });
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
}

TEST_CASE("managed memory: tells where it was prefetched to last") {
  const managed memory;
  for (const int place : {0, int{hipCpuDeviceId}}) {
    REQUIRE(hipMemPrefetchAsync(memory.get(), managed_bytes, place, nullptr) == hipSuccess);
    CHECK(told(memory, hipMemRangeAttributeLastPrefetchLocation) == place);
  }
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
}

TEST_CASE("managed memory: is attached to a stream") {
  const managed memory;
  const allocation plain{4096};
  const own_stream stream;
  int on_host = 0;
  const auto attach = [&](hipStream_t to, void* at, unsigned flags, std::size_t bytes = 0) {
    return hipStreamAttachMemAsync(to, at, bytes, flags);
  };
  check_rules({
      {"to all", [&] { return attach(stream.get(), memory.get(), hipMemAttachGlobal); },
       hipSuccess},
      {"to the null stream alone",
       [&] { return attach(nullptr, memory.get(), hipMemAttachSingle); }},
      {"by unknown flags", [&] { return attach(stream.get(), memory.get(), 3); }},
      {"part of it", [&] { return attach(stream.get(), memory.get(), hipMemAttachGlobal, 4096); }},
      {"memory of hipMalloc",
       [&] { return attach(stream.get(), plain.get(), hipMemAttachGlobal); }},
      {"memory of the host, without its size",
       [&] { return attach(stream.get(), &on_host, hipMemAttachGlobal); }},
      {"null", [&] { return attach(stream.get(), nullptr, hipMemAttachGlobal); }},
  });
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
}

TEST_CASE_FIXTURE(managed, "managed memory: is shared by the host and the device") {
  REQUIRE(fill_and_wait(get(), 0x6B, managed_bytes) == hipSuccess);
  CHECK(get()[managed_bytes - 1] == std::byte{0x6B});
}
