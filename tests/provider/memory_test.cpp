// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"

using namespace hipvmm::test;

TEST_CASE("memory: arguments outside the rules are refused") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const allocation device{4096};
  const pinned host{4096};
  const reservation unmapped{granule};
  int pageable = 0;
  void* pointer = nullptr;
  hipPointerAttribute_t attributes{};
  check_refusals({
      {"hipMalloc null", hipMalloc(nullptr, 1)},
      {"hipMalloc beyond the budget", hipMalloc(&pointer, device_budget), hipErrorOutOfMemory},
      {"hipMalloc beyond everything", hipMalloc(&pointer, SIZE_MAX), hipErrorOutOfMemory},
      {"hipFree of the middle", hipFree(device.at(256))},
      {"hipFree of pinned memory", hipFree(host.at())},
      {"hipFree of pageable memory", hipFree(&pageable)},
      {"hipFree of a reservation", hipFree(unmapped.at())},
      {"hipHostMalloc null", hipHostMalloc(nullptr, 1, 0)},
      {"hipHostMalloc unknown flag", hipHostMalloc(&pointer, 1, 0x8000U)},
      {"hipHostMalloc coherent and not",
       hipHostMalloc(&pointer, 1, hipHostMallocCoherent | hipHostMallocNonCoherent)},
      {"hipHostMalloc beyond everything", hipHostMalloc(&pointer, SIZE_MAX, 0),
       hipErrorOutOfMemory},
      {"hipHostFree of device memory", hipHostFree(device.at())},
      {"hipHostFree of pageable memory", hipHostFree(&pageable)},
      {"hipHostGetDevicePointer null", hipHostGetDevicePointer(nullptr, host.at(), 0)},
      {"hipHostGetDevicePointer of null", hipHostGetDevicePointer(&pointer, nullptr, 0)},
      {"hipHostGetDevicePointer with flags", hipHostGetDevicePointer(&pointer, host.at(), 1)},
      {"hipHostGetDevicePointer of pageable", hipHostGetDevicePointer(&pointer, &pageable, 0)},
      {"hipHostGetDevicePointer of device", hipHostGetDevicePointer(&pointer, device.at(), 0)},
      {"hipPointerGetAttributes null", hipPointerGetAttributes(nullptr, device.at())},
      {"hipPointerGetAttributes of null", hipPointerGetAttributes(&attributes, nullptr)},
      {"hipMemGetAddressRange of pageable", hipMemGetAddressRange(&pointer, nullptr, &pageable),
       hipErrorNotFound},
      {"hipMemGetAddressRange past the end",
       hipMemGetAddressRange(&pointer, nullptr, device.at(4096)), hipErrorNotFound},
  });
}

TEST_CASE("hipPointerGetAttributes: memory that HIP does not know is unregistered") {
  HIPVMM_SKIP_UNDER(unknown_pointer_is_error);
  const nothing_left check;
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

TEST_CASE("memory: no bytes are a null pointer, which may be freed") {
  const nothing_left check;
  void* pointer = &pointer;
  CHECK(hipMalloc(&pointer, 0) == hipSuccess);
  CHECK(pointer == nullptr);
  CHECK(hipFree(nullptr) == hipSuccess);
  CHECK(hipHostMalloc(&pointer, 0, 0) == hipSuccess);
  CHECK(pointer == nullptr);
  CHECK(hipHostFree(nullptr) == hipSuccess);
}

TEST_CASE("memory: pinned memory goes by its older names too") {
  const nothing_left check;
  int pageable = 0;
  void* pointers[3] = {};
  CHECK(hipHostAlloc(&pointers[0], 64, hipHostMallocMapped) == hipSuccess);
  CHECK(hipMallocHost(&pointers[1], 64) == hipSuccess);
  CHECK(hipMemAllocHost(&pointers[2], 64) == hipSuccess);
  CHECK(live_objects().host_allocations == 3);
  for (const unsigned expected : {hipHostMallocMapped, hipHostMallocDefault}) {
    unsigned flags = 99;
    CHECK(hipHostGetFlags(&flags, pointers[expected == hipHostMallocMapped ? 0 : 1]) == hipSuccess);
    CHECK(flags == under(quirks::tells_mapped, unsigned{hipHostMallocMapped}, expected));
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

TEST_CASE("memory: freeing twice is refused") {
  const nothing_left check;
  void* pointer = nullptr;
  REQUIRE(hipMalloc(&pointer, 100) == hipSuccess);
  CHECK(hipFree(pointer) == hipSuccess);
  CHECK(hipFree(pointer) == hipErrorInvalidValue);
}

TEST_CASE("memory: hipMalloc is aligned to 256 bytes and charged to the current device") {
  const nothing_left check;
  const allocation first{100, 2};
  const allocation second{100, 2};
  CHECK(reinterpret_cast<std::uintptr_t>(first.at()) % 256 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(second.at()) % 256 == 0);
  CHECK(hipvmm_host_device_bytes(2) == 200);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

TEST_CASE("memory: chunks and hipMalloc share one budget") {
  const nothing_left check;
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

TEST_CASE("memory: hipMemGetInfo speaks of the current device") {
  const nothing_left check;
  const allocation some{granule, 1};
  REQUIRE(hipSetDevice(1) == hipSuccess);
  size_t free_bytes = 0;
  CHECK(hipMemGetInfo(&free_bytes, nullptr) == hipSuccess);
  CHECK(free_bytes == device_budget - granule);
}

TEST_CASE("memory: hipFree waits for the work of the device") {
  const nothing_left check;
  const stream work;
  void* pointer = nullptr;
  REQUIRE(hipMalloc(&pointer, 64) == hipSuccess);
  bool ran = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(hipLaunchHostFunc(work.get(), set, &ran) == hipSuccess);
  CHECK(hipFree(pointer) == hipSuccess);
  CHECK(ran);
}

TEST_CASE("memory: pointers are described by what they belong to") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
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

TEST_CASE("memory: the address range is that of the allocation or mapping around the pointer") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const mapped mapping{granule};
  const allocation device{100};
  hipDeviceptr_t base = nullptr;
  size_t bytes = 0;
  CHECK(hipMemGetAddressRange(&base, &bytes, mapping.at(granule - 1)) == hipSuccess);
  CHECK(base == mapping.at());
  CHECK(bytes == granule);
  CHECK(hipMemGetAddressRange(&base, &bytes, device.at(99)) == hipSuccess);
  CHECK(base == device.at());
  CHECK(bytes == 100);
}

TEST_CASE("memory: pinned memory has its own address on the device") {
  const nothing_left check;
  const pinned host{4096};
  void* device_pointer = nullptr;
  CHECK(hipHostGetDevicePointer(&device_pointer, host.at(17), 0) == hipSuccess);
  CHECK(device_pointer == host.at(17));
}
