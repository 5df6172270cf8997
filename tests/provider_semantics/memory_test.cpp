// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

hipError_t range_of(const void* at) {
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  return hipMemGetAddressRange(&base, &bytes, const_cast<void*>(at));
}

hipError_t attributes_of(const void* at) {
  hipPointerAttribute_t found{};
  return hipPointerGetAttributes(&found, at);
}

hipMemoryType type_of(const void* at) {
  hipPointerAttribute_t found{};
  REQUIRE(hipPointerGetAttributes(&found, at) == hipSuccess);
  return hipvmm::hip_compat::memory_type(found);
}

struct pinned : ended_memory<hipHostFree> {
  explicit pinned(unsigned flags = hipHostMallocDefault) {
    REQUIRE(hipHostMalloc(&handle, 4096, flags) == hipSuccess);
  }
};

hipError_t allocate_pinned(unsigned flags) {
  void* start = nullptr;
  const hipError_t code = hipHostMalloc(&start, 4096, flags);
  if (code == hipSuccess) REQUIRE(hipHostFree(start) == hipSuccess);
  return code;
}

}  // namespace

TEST_CASE("hipMalloc: no bytes are a null pointer") {
  void* start = &start;
  CHECK(hipMalloc(&start, 0) == hipSuccess);
  CHECK(start == nullptr);
}

TEST_CASE("hipMalloc: more than any device has is refused") {
  void* start = nullptr;
  check_rules(
      {{"a PiB", [&] { return hipMalloc(&start, std::size_t{1} << 50U); }, hipErrorOutOfMemory}});
}

TEST_CASE("hipFree: takes what hipMalloc gave, once") {
  void* start = nullptr;
  REQUIRE(hipMalloc(&start, 4096) == hipSuccess);
  mapped chunks{1};
  int local = 0;
  check_rules({
      {"null", [] { return hipFree(nullptr); }, hipSuccess},
      {"an address inside", [&] { return hipFree(static_cast<std::byte*>(start) + 256); }},
      {"a mapping", [&] { return hipFree(chunks.at()); }},
      {"host memory", [&] { return hipFree(&local); }},
      {"it", [&] { return hipFree(start); }, hipSuccess},
      {"again", [&] { return hipFree(start); }},
  });
}

TEST_CASE_FIXTURE(pinned, "pinned memory: its arguments") {
  void* found = nullptr;
  int local = 0;
  check_rules({
      {"no flags", [] { return allocate_pinned(0); }, hipSuccess},
      {"portable and mapped",
       [] { return allocate_pinned(hipHostMallocPortable | hipHostMallocMapped); }, hipSuccess},
      {"coherent", [] { return allocate_pinned(hipHostMallocCoherent); }, hipSuccess},
      {"coherent and not",
       [] { return allocate_pinned(hipHostMallocCoherent | hipHostMallocNonCoherent); }},
      {"unknown flags", [] { return allocate_pinned(0x1000); }},
      {"free null", [] { return hipHostFree(nullptr); }, hipSuccess},
      {"free inside", [&] { return hipHostFree(get() + 256); }},
      {"free pageable memory", [&] { return hipHostFree(&local); }},
      {"its device address", [&] { return hipHostGetDevicePointer(&found, get(), 0); }, hipSuccess},
      {"inside", [&] { return hipHostGetDevicePointer(&found, get() + 8, 0); }, hipSuccess},
      {"of pageable memory", [&] { return hipHostGetDevicePointer(&found, &local, 0); }},
      {"with flags", [&] { return hipHostGetDevicePointer(&found, get(), 1); }},
  });
}

TEST_CASE_FIXTURE(pinned, "pinned memory: has its device address at its own") {
  void* found = nullptr;
  REQUIRE(hipHostGetDevicePointer(&found, get() + 8, 0) == hipSuccess);
  CHECK(found == get() + 8);
}

TEST_CASE("pinned memory: keeps the flags it was given") {
  for (const unsigned given : {0U, 1U, 2U, 3U, 4U, 7U}) {
    const pinned one{given};
    unsigned flags = 99;
    REQUIRE(hipHostGetFlags(&flags, one.get() + 16) == hipSuccess);
    CAPTURE(given);
    CHECK(flags == (like_cuda() ? given | hipHostMallocMapped : given));
  }
}

TEST_CASE("pointer: belongs to an allocation or a mapping") {
  const allocation plain{4096};
  const mapped one{1, 1};
  const pinned host;
  int local = 0;
  check_rules({
      {"hipMalloc", [&] { return attributes_of(plain.get() + 100); }, hipSuccess},
      {"a mapping", [&] { return attributes_of(one.at(0, 100)); }, hipSuccess},
      {"pinned", [&] { return attributes_of(host.get() + 100); }, hipSuccess},
      {"reserved only", [&] { return attributes_of(one.at(1)); }, hipSuccess},
      {"pageable", [&] { return attributes_of(&local); }, hipSuccess},
      {"null", [] { return attributes_of(nullptr); }},
  });
  CHECK(type_of(plain.get()) == hipMemoryTypeDevice);
  CHECK(type_of(one.at()) == hipMemoryTypeDevice);
  CHECK(type_of(host.get()) == hipMemoryTypeHost);
}

TEST_CASE("hipPointerGetAttributes: memory that HIP does not know is unregistered") {
  int local = 0;
  hipPointerAttribute_t found{};
  found.hostPointer = &found;
  REQUIRE(hipPointerGetAttributes(&found, &local) == hipSuccess);
  CHECK(hipvmm::hip_compat::memory_type(found) == hipvmm::hip_compat::unregistered_memory_type);
  CHECK(found.device == hipInvalidDeviceId);
  CHECK(found.devicePointer == nullptr);
  CHECK(found.hostPointer == nullptr);
}

TEST_CASE("pointer: its range is its allocation, its mapping or on CUDA its reservation") {
  const allocation plain{4096};
  const mapped two{2, 1};
  int local = 0;
  check_rules({
      {"hipMalloc", [&] { return range_of(plain.get() + 100); }, hipSuccess},
      {"a mapping", [&] { return range_of(two.at(1, 100)); }, hipSuccess},
      {"reserved only", [&] { return range_of(two.at(2)); }, hipErrorNotFound},
      {"pageable", [&] { return range_of(&local); }, hipErrorNotFound},
  });
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  REQUIRE(hipMemGetAddressRange(&base, &bytes, plain.get() + 100) == hipSuccess);
  CHECK(base == plain.get());
  CHECK(bytes == 4096);
  REQUIRE(hipMemGetAddressRange(&base, &bytes, two.at(1, 100)) == hipSuccess);
  // CUDA tells the whole reservation, of which two granules are mapped.
  CHECK(base == (like_cuda() ? two.at(0) : two.at(1)));
  CHECK(bytes == (like_cuda() ? 3 : 1) * granule());
}

TEST_CASE("device: its memory is told, each result for itself") {
  std::size_t free = 0;
  std::size_t total = 0;
  check_rules({
      {"both", [&] { return hipMemGetInfo(&free, &total); }, hipSuccess},
      {"neither", [] { return hipMemGetInfo(nullptr, nullptr); }, hipSuccess},
  });
  CHECK(free <= total);
  CHECK(total > 0);
}

TEST_CASE("device: one that does not exist is refused") {
  char name[64];
  int value = 0;
  std::size_t bytes = 0;
  hipDevice_t device = 0;
  check_rules({
      {"set", [] { return hipSetDevice(no_device); }, hipErrorInvalidDevice},
      {"get", [&] { return hipDeviceGet(&device, no_device); }, hipErrorInvalidDevice},
      {"name", [&] { return hipDeviceGetName(name, 64, no_device); }, hipErrorInvalidDevice},
      {"memory", [&] { return hipDeviceTotalMem(&bytes, -1); }, hipErrorInvalidDevice},
      {"attribute",
       [&] { return hipDeviceGetAttribute(&value, hipDeviceAttributeIntegrated, no_device); },
       hipErrorInvalidDevice},
      {"no such attribute",
       [&] { return hipDeviceGetAttribute(&value, no_such<hipDeviceAttribute_t>(9000), 0); }},
      {"peer", [&] { return hipDeviceCanAccessPeer(&value, 0, no_device); }, hipErrorInvalidDevice},
  });
}
