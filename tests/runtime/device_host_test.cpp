// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device.hpp>

#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("device_count: is what the provider was told") { CHECK(device_count() == 3); }

TEST_CASE("device_ref: peers follow the links between devices") {
  CHECK(device_ref{0}.can_access_peer(device_ref{1}));
  CHECK(device_ref{1}.can_access_peer(device_ref{0}));
  CHECK_FALSE(device_ref{0}.can_access_peer(device_ref{2}));
  CHECK_FALSE(device_ref{2}.can_access_peer(device_ref{1}));
}

TEST_CASE("device_ref: free memory falls by what is allocated on that device alone") {
  const std::size_t free_of_first = device_ref{0}.free_memory();
  const std::size_t free_of_second = device_ref{1}.free_memory();
  const device_memory memory{16 * MiB, device_ref{1}};
  CHECK(device_ref{0}.free_memory() == free_of_first);
  CHECK(device_ref{1}.free_memory() <= free_of_second - 16 * MiB);
}

TEST_CASE("percent_of_free_device_memory: goes by what is free, of the device that is asked") {
  const device_memory memory{512 * MiB, device_ref{1}};
  const std::size_t free = device_ref{1}.free_memory();
  CHECK(percent_of_free_device_memory(device_ref{1}, 50) == align_down(free / 2, 256));
  CHECK(percent_of_free_device_memory(50) > percent_of_free_device_memory(device_ref{1}, 50));
}

HIPVMM_CHILD("any case") { CHECK(device_count() == 0); }

TEST_CASE("no device: a program ends with one sentence that says what leaves none") {
  const child_result child =
      run_child("any case", {"HIPVMM_HOST_DEVICES=0", "HIPVMM_HOST_PEERS=all"});
  CAPTURE(child.output);
  CHECK(child.status == 2);
  CHECK(child.output.find("no HIP device") != std::string::npos);
  CHECK(child.output.find("HIPVMM_HOST_DEVICES says how many") != std::string::npos);
  // That provider runs.
  CHECK(child.output.find("HIPVMM_PROVIDER=host") == std::string::npos);
}

HIPVMM_TEST_CASE_IN(
    "prefetch_async: a device that takes turns with the host is named, and what helps",
    {"HIPVMM_HOST_CONCURRENT_MANAGED=0"}) {
  void* block = nullptr;
  REQUIRE(hipMallocManaged(&block, KiB, hipMemAttachGlobal) == hipSuccess);
  const stream used{device_ref{0}};
  CHECK_THROWS_WITH_AS(prefetch_async(used, block, KiB, device_ref{1}),
                       doctest::Contains("hipMemPrefetchAsync: device 1 takes turns"), unsupported);
  CHECK_THROWS_WITH_AS(prefetch_async(used, block, KiB, memory_location::host()),
                       doctest::Contains("device 0 takes turns"), unsupported);
  constexpr auto prefer = location_advice::set_preferred_location;
  CHECK_THROWS_WITH_AS(advise(block, KiB, prefer, device_ref{1}),
                       doctest::Contains("hipMemAdvise: device 1 takes turns"), unsupported);
  CHECK(hipPeekAtLastError() == hipSuccess);
  CHECK_NOTHROW(advise(block, KiB, prefer, memory_location::host()));
  CHECK(hipFree(block) == hipSuccess);
}

TEST_CASE("scoped_device: a device that cannot be restored is reported") {
  const error_recorder reported;
  {
    const scoped_device scope{device_ref{1}};
    hipvmm_host_fail_call("hipSetDevice", 1, hipErrorUnknown);
  }
  hipvmm_host_fail_call(nullptr, 0, 0);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().call == "hipSetDevice");
}

}  // namespace
}  // namespace hipvmm::test
