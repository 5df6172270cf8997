// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>

#include "core/hip_compat.hpp"
#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

TIDY_CASE("memory: arguments outside the rules are refused") {
  const allocation device{4096};
  const pinned host{4096};
  const reservation unmapped{granule};
  void* pointer = nullptr;
  check_refusals({
      {"hipMalloc null", hipMalloc(nullptr, 1)},
      {"hipMalloc beyond the budget", hipMalloc(&pointer, device_budget), hipErrorOutOfMemory},
      {"hipFree of pinned memory", hipFree(host.at())},
      {"hipFree of a reservation", hipFree(unmapped.at())},
      {"hipHostMalloc null", hipHostMalloc(nullptr, 1, 0)},
      {"hipHostMalloc beyond everything", hipHostMalloc(&pointer, SIZE_MAX, 0),
       hipErrorOutOfMemory},
      {"hipHostFree of device memory", hipHostFree(device.at())},
      {"hipHostGetDevicePointer null", hipHostGetDevicePointer(nullptr, host.at(), 0)},
      {"hipHostGetDevicePointer of null", hipHostGetDevicePointer(&pointer, nullptr, 0)},
      {"hipHostGetDevicePointer of device", hipHostGetDevicePointer(&pointer, device.at(), 0)},
      {"hipPointerGetAttributes null", hipPointerGetAttributes(nullptr, device.at())},
      {"hipMemGetAddressRange past the end",
       hipMemGetAddressRange(&pointer, nullptr, device.at(4096)), hipErrorNotFound},
  });
}

TIDY_CASE("hipPointerGetAttributes: memory that HIP does not know is unregistered") {
  const reservation unmapped{granule};
  const int own = 0;
  for (const void* const pointer : std::initializer_list<const void*>{&own, unmapped.at()}) {
    hipPointerAttribute_t told{};
    told.device = 7;
    told.hostPointer = &told;
    CHECK(hipPointerGetAttributes(&told, pointer) == hipSuccess);
    CHECK(hipvmm::hip_compat::memory_type(told) == hipvmm::hip_compat::unregistered_memory_type);
    CHECK(told.device == hipInvalidDeviceId);
    CHECK(told.devicePointer == nullptr);
    CHECK(told.hostPointer == nullptr);
    CHECK(told.isManaged == 0);
  }
}

TIDY_CASE("memory: pinned and managed memory together fit the machine") {
  const std::size_t machine = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pinned = nullptr;
  void* other = nullptr;
  check_refusals({
      {"hipHostMalloc of more", hipHostMalloc(&pinned, machine + 1, 0), hipErrorOutOfMemory},
      {"hipMallocManaged of more", hipMallocManaged(&other, std::size_t{64} << 40U, 1),
       hipErrorOutOfMemory},
  });
  // Freed memory may be had again, and a refusal costs nothing.
  for (int round = 0; round < 3; ++round) {
    REQUIRE(hipHostMalloc(&pinned, machine / 8 * 5, 0) == hipSuccess);
    CHECK(hipMallocManaged(&other, machine / 2, hipMemAttachGlobal) == hipErrorOutOfMemory);
    CHECK(hipHostFree(pinned) == hipSuccess);
    REQUIRE(hipMallocManaged(&other, machine / 2, hipMemAttachGlobal) == hipSuccess);
    CHECK(hipFree(other) == hipSuccess);
  }
}

TIDY_CASE("hipHostMalloc: no bytes are a null pointer") {
  void* pointer = &pointer;
  CHECK(hipHostMalloc(&pointer, 0, 0) == hipSuccess);
  CHECK(pointer == nullptr);
}

TIDY_CASE("memory: pinned memory goes by its older names too") {
  int pageable = 0;
  void* pointers[3] = {};
  CHECK(hipHostAlloc(&pointers[0], 64, hipHostMallocMapped) == hipSuccess);
  CHECK(hipMallocHost(&pointers[1], 64) == hipSuccess);
  CHECK(hipMemAllocHost(&pointers[2], 64) == hipSuccess);
  CHECK(live_objects().host_allocations == 3);
  for (const unsigned expected : {hipHostMallocMapped, hipHostMallocDefault}) {
    unsigned flags = 99;
    CHECK(hipHostGetFlags(&flags, pointers[expected == hipHostMallocMapped ? 0 : 1]) == hipSuccess);
    CHECK(flags == expected);
  }
  for (void* const each : pointers) CHECK(hipFreeHost(each) == hipSuccess);
  check_refusals({
      {"hipHostAlloc unknown flag", hipHostAlloc(&pointers[0], 1, 0x8000U)},
      {"hipMallocHost null", hipMallocHost(nullptr, 1)},
      {"hipMemAllocHost null", hipMemAllocHost(nullptr, 1)},
      {"hipMallocHost beyond everything", hipMallocHost(&pointers[0], SIZE_MAX),
       hipErrorOutOfMemory},
      {"hipFreeHost of pageable memory", hipFreeHost(&pageable)},
  });
}

TIDY_CASE("memory: hipMalloc is aligned to 256 bytes and charged to the current device") {
  const allocation first{100, 2};
  const allocation second{100, 2};
  CHECK(reinterpret_cast<std::uintptr_t>(first.at()) % 256 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(second.at()) % 256 == 0);
  CHECK(hipvmm_host_device_bytes(2) == 200);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

TIDY_CASE("memory: chunks and hipMalloc share one budget") {
  const memory chunk{device_budget - granule};
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, granule + 1) == hipErrorOutOfMemory);
  const allocation rest{granule};
  const hipMemAllocationProp properties = chunk_on(0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  CHECK(hipMemCreate(&handle, granule, &properties, 0) == hipErrorOutOfMemory);
  size_t free_bytes = 1;
  size_t total = 0;
  CHECK(hipMemGetInfo(&free_bytes, &total) == hipSuccess);
  CHECK(free_bytes == 0);
  CHECK(total == device_budget);
}

TIDY_CASE("memory: hipMemGetInfo speaks of the current device") {
  const allocation some{granule, 1};
  REQUIRE(hipSetDevice(1) == hipSuccess);
  size_t free_bytes = 0;
  CHECK(hipMemGetInfo(&free_bytes, nullptr) == hipSuccess);
  CHECK(free_bytes == device_budget - granule);
}

WORK_CASE("memory: hipFree waits for the work of the device") {
  void* pointer = nullptr;
  REQUIRE(hipMalloc(&pointer, 64) == hipSuccess);
  bool ran = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(hipLaunchHostFunc(work.get(), set, &ran) == hipSuccess);
  CHECK(hipFree(pointer) == hipSuccess);
  CHECK(ran);
}

TIDY_CASE("memory: pointers are described by what they belong to") {
  const mapped mapping{granule, {1}, 1};
  const allocation device{100, 2};
  const pinned host{100};
  struct row {
    const char* what;
    std::byte* pointer;
    hipMemoryType type;
    int device;
    std::byte* host;
  };
  for (const row& each : {row{"mapping", mapping.at(77), hipMemoryTypeDevice, 1, nullptr},
                          row{"hipMalloc", device.at(99), hipMemoryTypeDevice, 2, nullptr},
                          row{"hipHostMalloc", host.at(5), hipMemoryTypeHost, 0, host.at(5)}}) {
    CAPTURE(each.what);
    hipPointerAttribute_t attributes{};
    REQUIRE(hipPointerGetAttributes(&attributes, each.pointer) == hipSuccess);
    CHECK(hipvmm::hip_compat::memory_type(attributes) == each.type);
    CHECK(attributes.device == each.device);
    CHECK(attributes.devicePointer == each.pointer);
    CHECK(attributes.hostPointer == each.host);
  }
}
