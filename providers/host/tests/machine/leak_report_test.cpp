// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <string>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr const char* leaking_child = "leaves one of everything behind";
constexpr const char* tidy_child = "gives everything back at last";
constexpr const char* many_child = "leaves twelve allocations behind";
constexpr int leak_status = 23;

bool says(const child_result& result, const std::string& text) {
  return result.output.find(text) != std::string::npos;
}

}  // namespace

HIPVMM_CHILD("leaves one of everything behind") {
  const hipMemAllocationProp properties = chunk_on(1);
  hipMemGenericAllocationHandle_t handle = nullptr;
  void* addresses = nullptr;
  REQUIRE(hipMemCreate(&handle, granule, &properties, 0) == hipSuccess);
  REQUIRE(hipMemAddressReserve(&addresses, 2 * granule, 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemMap(addresses, granule, 0, handle, 0) == hipSuccess);
  void* pointer = nullptr;
  REQUIRE(hipMalloc(&pointer, 100) == hipSuccess);
  REQUIRE(hipHostMalloc(&pointer, 200, hipHostMallocDefault) == hipSuccess);
  REQUIRE(hipMallocManaged(&pointer, 300, hipMemAttachGlobal) == hipSuccess);
  REQUIRE(hipMallocAsync(&pointer, 400, nullptr) == hipSuccess);
  void* const own = std::malloc(500);
  REQUIRE(own != nullptr);
  REQUIRE(hipHostRegister(own, 500, hipHostRegisterDefault) == hipSuccess);
  hipStream_t stream = nullptr;
  REQUIRE(hipStreamCreate(&stream) == hipSuccess);
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal) == hipSuccess);
  REQUIRE(hipMallocAsync(&pointer, 600, stream) == hipSuccess);
  REQUIRE(hipStreamEndCapture(stream, &graph) == hipSuccess);
  hipGraphExec_t exec = nullptr;
  REQUIRE(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == hipSuccess);
  REQUIRE(hipGraphLaunch(exec, stream) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream) == hipSuccess);
  hipEvent_t event = nullptr;
  REQUIRE(hipEventCreate(&event) == hipSuccess);
  hipMemPoolProps pool_properties{};
  pool_properties.allocType = hipMemAllocationTypePinned;
  pool_properties.location = {hipMemLocationTypeDevice, 0};
  hipMemPool_t pool = nullptr;
  REQUIRE(hipMemPoolCreate(&pool, &pool_properties) == hipSuccess);
}

TEST_CASE("leak_report: names what is left by kind, with addresses and bytes, and fails") {
  const child_result result = run_child(leaking_child, {"HIPVMM_HOST_LEAKS=1"});
  CAPTURE(result.output);
  CHECK(result.status == leak_status);
  CHECK(says(result, "the process ends and still holds"));
  CHECK(says(result, "1 of hipMemCreate or import: 0xc1"));
  CHECK(says(result, "(2097152 bytes of device 1, 1 reference)"));
  CHECK(says(result, "1 of hipMemAddressReserve: 0x"));
  CHECK(says(result, "(4194304 bytes)"));
  CHECK(says(result, "1 of hipMemMap: 0x"));
  CHECK(says(result, "(2097152 bytes)"));
  CHECK(says(result, "1 of hipMalloc: 0x"));
  CHECK(says(result, "(100 bytes)"));
  CHECK(says(result, "1 of hipHostMalloc: 0x"));
  CHECK(says(result, "(200 bytes)"));
  CHECK(says(result, "1 of hipMallocManaged: 0x"));
  CHECK(says(result, "(300 bytes)"));
  CHECK(says(result, "1 of hipMallocAsync or a pool: 0x"));
  CHECK(says(result, "(400 bytes)"));
  CHECK(says(result, "1 of hipHostRegister: 0x"));
  CHECK(says(result, "(500 bytes)"));
  CHECK(says(result, "1 of hipStreamCreate"));
  CHECK(says(result, "1 of hipEventCreate"));
  CHECK(says(result, "1 of a graph: 0x"));
  CHECK(says(result, "(600 bytes)"));
  CHECK(says(result, "1 of hipGraphCreate or capture"));
  CHECK(says(result, "1 of hipGraphInstantiate"));
  CHECK(says(result, "1 of hipMemPoolCreate or import"));
}

TEST_CASE("leak_report: stays away unless it is asked for") {
  for (const char* setting : {"HIPVMM_HOST_LEAKS=0", "HIPVMM_UNRELATED=1"}) {
    const child_result result = run_child(leaking_child, {setting});
    CAPTURE(result.output);
    CHECK(passed(result));
    CHECK_FALSE(says(result, "still holds"));
  }
}

HIPVMM_CHILD("leaves twelve allocations behind") {
  for (int i = 0; i < 12; ++i) {
    void* pointer = nullptr;
    REQUIRE(hipMalloc(&pointer, 64) == hipSuccess);
  }
}

TEST_CASE("leak_report: lists some of many") {
  const child_result result = run_child(many_child, {"HIPVMM_HOST_LEAKS=1"});
  CAPTURE(result.output);
  CHECK(result.status == leak_status);
  CHECK(says(result, "12 of hipMalloc: 0x"));
  CHECK(says(result, " and 4 more\n"));
}

HIPVMM_CHILD("gives everything back at last") {
  const mapped memory{granule};
  const allocation device{64};
  static void* late = nullptr;
  REQUIRE(hipMalloc(&late, 64) == hipSuccess);
  REQUIRE(std::atexit([] { static_cast<void>(hipFree(late)); }) == 0);
}

TEST_CASE("leak_report: what exit handlers release is no leak") {
  const child_result result = run_child(tidy_child, {"HIPVMM_HOST_LEAKS=1"});
  CAPTURE(result.output);
  CHECK(passed(result));
  CHECK(result.status == 0);
}
