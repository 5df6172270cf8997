// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>
#include <string>
#include <thread>

#include "core/hip_compat.hpp"
#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

TEST_CASE("device: arguments outside the rules are refused") {
  int number = 0;
  unsigned flags = 0;
  size_t bytes = 0;
  std::array<char, 8> name{};
  check_refusals({
      {"hipInit with flags", hipInit(1)},
      {"hipDriverGetVersion null", hipDriverGetVersion(nullptr)},
      {"hipRuntimeGetVersion null", hipRuntimeGetVersion(nullptr)},
      {"hipGetDeviceCount null", hipGetDeviceCount(nullptr)},
      {"hipGetDevice null", hipGetDevice(nullptr)},
      {"hipSetDevice negative", hipSetDevice(-1), hipErrorInvalidDevice},
      {"hipDevicePrimaryCtxGetState no flags", hipDevicePrimaryCtxGetState(0, nullptr, &number)},
      {"hipDevicePrimaryCtxGetState no state", hipDevicePrimaryCtxGetState(0, &flags, nullptr)},
      {"hipDevicePrimaryCtxGetState beyond", hipDevicePrimaryCtxGetState(3, &flags, &number),
       hipErrorInvalidDevice},
      {"hipDeviceGet null", hipDeviceGet(nullptr, 0)},
      {"hipDeviceGetName null", hipDeviceGetName(nullptr, 8, 0)},
      {"hipDeviceGetName no room", hipDeviceGetName(name.data(), 0, 0)},
      {"hipDeviceTotalMem null", hipDeviceTotalMem(nullptr, 0)},
      {"hipDeviceTotalMem beyond", hipDeviceTotalMem(&bytes, 3), hipErrorInvalidDevice},
      {"attribute null", hipDeviceGetAttribute(nullptr, hipDeviceAttributeIntegrated, 0)},
      {"hipDeviceCanAccessPeer null", hipDeviceCanAccessPeer(nullptr, 0, 1)},
      {"hipDeviceCanAccessPeer of no device", hipDeviceCanAccessPeer(&number, 3, 0),
       hipErrorInvalidDevice},
      {"hipDeviceCanAccessPeer to no device", hipDeviceCanAccessPeer(&number, 3, 3),
       hipErrorInvalidDevice},
      {"peer access without a link", hipDeviceEnablePeerAccess(2, 0), hipErrorInvalidDevice},
      {"disabling no device", hipDeviceDisablePeerAccess(3), hipErrorInvalidDevice},
  });
  static_cast<void>(hipGetLastError());
}

TEST_CASE("device: the version is that of the header it is built with") {
  int driver = 0;
  int runtime = 0;
  CHECK(hipDriverGetVersion(&driver) == hipSuccess);
  CHECK(hipRuntimeGetVersion(&runtime) == hipSuccess);
  CHECK(driver == HIP_VERSION);
  CHECK(runtime == HIP_VERSION);
}

TEST_CASE("device: virtual memory management is supported and so are memory pools") {
  int value = -1;
  CHECK(hipDeviceGetAttribute(&value, hipvmm::hip_compat::virtual_memory_management_supported, 2) ==
        hipSuccess);
  CHECK(value == 1);
  CHECK(hipDeviceGetAttribute(&value, hipDeviceAttributeMemoryPoolsSupported, 2) == hipSuccess);
  CHECK(value == 1);
}

TEST_CASE("device: there are no images") {
  int value = -1;
  CHECK(hipDeviceGetAttribute(&value, hipDeviceAttributeImageSupport, 0) == hipSuccess);
  CHECK(value == 0);
}

TEST_CASE("device: a name is cut to the room it has") {
  std::array<char, 7> name;
  name.fill('x');
  CHECK(hipDeviceGetName(name.data(), static_cast<int>(name.size()), 1) == hipSuccess);
  CHECK(std::string{name.data()} == "hipvmm");
}

TEST_CASE("device: every thread starts on device 0 and has a current device of its own") {
  REQUIRE(hipSetDevice(2) == hipSuccess);
  int elsewhere = -1;
  std::thread{[&] { static_cast<void>(hipGetDevice(&elsewhere)); }}.join();
  int here = -1;
  CHECK(hipGetDevice(&here) == hipSuccess);
  CHECK(here == 2);
  CHECK(elsewhere == 0);
  CHECK(hipSetDevice(0) == hipSuccess);
}

TEST_CASE("device: peers are those that the environment links, in both directions") {
  for (int device = 0; device < 3; ++device) {
    for (int peer = 0; peer < 3; ++peer) {
      CAPTURE(device);
      CAPTURE(peer);
      int can_access = -1;
      CHECK(hipDeviceCanAccessPeer(&can_access, device, peer) == hipSuccess);
      CHECK(can_access == (device + peer == 1 ? 1 : 0));
    }
  }
}

HIPVMM_TEST_CASE_IN("device: with none, the count says so and so does everything else",
                    {"HIPVMM_HOST_DEVICES=0", "HIPVMM_HOST_PEERS=none"}) {
  int number = 7;
  void* pointer = nullptr;
  size_t bytes = 0;
  hipStream_t made = nullptr;
  CHECK(hipGetDeviceCount(&number) == hipErrorNoDevice);
  CHECK(number == 0);
  CHECK(hipRuntimeGetVersion(&number) == hipSuccess);
  const hipMemAllocationProp properties = chunk_on(0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  check_refusals({
      {"hipInit", hipInit(0), hipErrorNoDevice},
      {"hipGetDevice", hipGetDevice(&number), hipErrorNoDevice},
      {"hipSetDevice", hipSetDevice(0), hipErrorNoDevice},
      {"hipDeviceSynchronize", hipDeviceSynchronize(), hipErrorNoDevice},
      {"hipMalloc", hipMalloc(&pointer, 1), hipErrorNoDevice},
      {"hipMemGetInfo", hipMemGetInfo(&bytes, &bytes), hipErrorNoDevice},
      {"hipMemCreate", hipMemCreate(&handle, granule, &properties, 0), hipErrorNoDevice},
      {"hipMemAddressReserve", hipMemAddressReserve(&pointer, granule, 0, nullptr, 0),
       hipErrorNoDevice},
      {"hipStreamCreate", hipStreamCreate(&made), hipErrorNoDevice},
      {"hipStreamSynchronize", hipStreamSynchronize(nullptr), hipErrorNoDevice},
  });
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

TEST_CASE("hipDeviceGetP2PAttribute: arguments outside the rules are refused") {
  int value = 0;
  constexpr auto access = hipDevP2PAttrAccessSupported;
  check_refusals({
      {"null", hipDeviceGetP2PAttribute(nullptr, access, 0, 1)},
      {"negative", hipDeviceGetP2PAttribute(&value, access, -1, 1), hipErrorInvalidDevice},
      {"negative peer", hipDeviceGetP2PAttribute(&value, access, 0, -1), hipErrorInvalidDevice},
      {"too large", hipDeviceGetP2PAttribute(&value, access, 3, 1), hipErrorInvalidDevice},
      {"too large peer", hipDeviceGetP2PAttribute(&value, access, 0, 3), hipErrorInvalidDevice},
  });
}

TEST_CASE("hipDeviceGetP2PAttribute: what is told follows the links") {
  struct row {
    hipDeviceP2PAttr attribute;
    int linked;
    int apart;
  };
  for (const row& each :
       {row{hipDevP2PAttrPerformanceRank, 2, 2}, row{hipDevP2PAttrAccessSupported, 1, 0},
        row{hipDevP2PAttrNativeAtomicSupported, 0, 0},
        row{hipDevP2PAttrHipArrayAccessSupported, 0, 0}}) {
    CAPTURE(each.attribute);
    int value = 99;
    CHECK(hipDeviceGetP2PAttribute(&value, each.attribute, 1, 0) == hipSuccess);
    CHECK(value == each.linked);
    CHECK(hipDeviceGetP2PAttribute(&value, each.attribute, 0, 2) == hipSuccess);
    CHECK(value == each.apart);
  }
}

TEST_CASE("hipExtGetLinkTypeAndHopCount: PCIe and one hop, with access or without") {
  for (const int peer : {1, 2}) {
    std::uint32_t type = 77;
    std::uint32_t hops = 77;
    CHECK(hipExtGetLinkTypeAndHopCount(0, peer, &type, &hops) == hipSuccess);
    CHECK(type == 2);
    CHECK(hops == 1);
  }
}
