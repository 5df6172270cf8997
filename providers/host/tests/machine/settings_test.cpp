// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr const char* refused_child = "calls are refused";
constexpr const char* described_child = "devices are as described";

std::size_t expected(const char* variable) {
  const char* value = std::getenv(variable);
  REQUIRE(value != nullptr);
  return std::stoull(value);
}

}  // namespace

HIPVMM_CHILD("calls are refused") {
  int count = 7;
  CHECK(hipGetDeviceCount(&count) == hipErrorNotInitialized);
  CHECK(count == 7);
  CHECK(hipInit(0) == hipErrorNotInitialized);
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, 1) == hipErrorNotInitialized);
  CHECK(std::string{hipGetErrorName(hipGetLastError())} == "hipErrorNotInitialized");
  hipvmm_host_counters counters = live_objects();
  CHECK(counters == hipvmm_host_counters{});
}

HIPVMM_CHILD("devices are as described") {
  int count = 0;
  CHECK(hipGetDeviceCount(&count) == hipSuccess);
  CHECK(count == static_cast<int>(expected("TEST_DEVICES")));
  size_t total = 0;
  CHECK(hipDeviceTotalMem(&total, count - 1) == hipSuccess);
  CHECK(total == expected("TEST_MEMORY"));
  const hipMemAllocationProp properties = chunk_on(0);
  for (const auto option :
       {hipMemAllocationGranularityMinimum, hipMemAllocationGranularityRecommended}) {
    size_t granularity = 0;
    CHECK(hipMemGetAllocationGranularity(&granularity, &properties, option) == hipSuccess);
    CHECK(granularity == expected("TEST_GRANULARITY"));
  }
}

TEST_CASE("settings: a value that is not understood ends every call, with one sentence") {
  struct bad {
    const char* variable;
    const char* value;
    const char* accepted;
  };
  for (const bad& each : {
           bad{"HIPVMM_HOST_DEVICES", "65", "from 0 to 64"},
           bad{"HIPVMM_HOST_DEVICES", "-1", "from 0 to 64"},
           bad{"HIPVMM_HOST_DEVICES", "two", "from 0 to 64"},
           bad{"HIPVMM_HOST_DEVICES", "", "from 0 to 64"},
           bad{"HIPVMM_HOST_MEMORY", "16GB", "a number of bytes"},
           bad{"HIPVMM_HOST_MEMORY", "0", "at least the granularity"},
           bad{"HIPVMM_HOST_REPORTED_MEMORY", "0", "at least the granularity"},
           bad{"HIPVMM_HOST_MEMORY", "99999999999TiB", "a number of bytes"},
           bad{"HIPVMM_HOST_MEMORY", "1.5GiB", "a number of bytes"},
           bad{"HIPVMM_HOST_GRANULARITY", "3MiB", "a power of two"},
           bad{"HIPVMM_HOST_GRANULARITY", "512", "the page size"},
           bad{"HIPVMM_HOST_GRANULARITY", "2GiB", "to 1GiB"},
           bad{"HIPVMM_HOST_PEERS", "some", "joined by commas"},
           bad{"HIPVMM_HOST_PEERS", "0-3", "below 3"},
           bad{"HIPVMM_HOST_PEERS", "1-1", "two different devices"},
           bad{"HIPVMM_HOST_PEERS", "0-1,", "joined by commas"},
           bad{"HIPVMM_HOST_PEERS", "0", "joined by commas"},
           bad{"HIPVMM_HOST_PEERS", "", "joined by commas"},
           bad{"HIP_HIDDEN_FREE_MEM", "some", "a whole number of MiB"},
           bad{"HIPVMM_HOST_PROFILE", "rocm-8", "one of strict, rocm-5.7, rocm-6.2"},
           bad{"HIPVMM_HOST_PROFILE", "", "rocm-10, cuda-13"},
           bad{"HIPVMM_HOST_ADDRESS_SPACE", "lots", "a number of bytes"},
           bad{"HIPVMM_HOST_ADDRESS_SPACE", "4096", "at least the granularity"},
           bad{"HIPVMM_HOST_LEAKS", "yes", "0 or 1"},
           bad{"HIPVMM_HOST_PAGEABLE", "2", "0 or 1"},
           bad{"HIPVMM_HOST_CONCURRENT_MANAGED", "no", "0 or 1"},
           bad{"HIPVMM_HOST_CHECK", "yes", "0 or 1"},
           bad{"HIPVMM_HOST_CHECK", "", "0 or 1"},
           bad{"HIPVMM_HOST_REUSE_HANDLES", "lifo", "0 or 1"},
       }) {
    CAPTURE(each.variable);
    CAPTURE(each.value);
    const child_result result =
        run_child(refused_child, {std::string{each.variable} + "=" + each.value});
    CAPTURE(result.output);
    CHECK(passed(result));
    const std::string start = std::string{"hipvmm host provider: "} + each.variable + "=\"" +
                              each.value + "\" is not valid. Set it to ";
    const std::size_t found = result.output.find(start);
    CHECK(found != std::string::npos);
    CHECK(result.output.find(each.accepted) != std::string::npos);
    CHECK(result.output.find(start, found + 1) == std::string::npos);
  }
}

TEST_CASE("settings: a variable that is misspelt ends every call, with the nearest name") {
  struct misspelt {
    const char* variable;
    const char* nearest;
  };
  for (const misspelt& each : {misspelt{"HIPVMM_HOST_DEVICE", "HIPVMM_HOST_DEVICES"},
                               misspelt{"HIPVMM_HOST_devices", "HIPVMM_HOST_DEVICES"},
                               misspelt{"HIPVMM_HOST_MEMROY", "HIPVMM_HOST_MEMORY"},
                               misspelt{"HIPVMM_HOST_PROFIL", "HIPVMM_HOST_PROFILE"},
                               misspelt{"HIPVMM_HOST_REUSED_HANDLE", "HIPVMM_HOST_REUSE_HANDLES"},
                               misspelt{"HIPVMM_HOST_", "HIPVMM_HOST_CHECK"}}) {
    CAPTURE(each.variable);
    const child_result result = run_child(refused_child, {std::string{each.variable} + "=1"});
    CAPTURE(result.output);
    CHECK(passed(result));
    const std::string sentence = std::string{"hipvmm host provider: there is no variable "} +
                                 each.variable + ". The nearest is " + each.nearest + ";";
    const std::size_t found = result.output.find(sentence);
    CHECK(found != std::string::npos);
    CHECK(result.output.find(sentence, found + 1) == std::string::npos);
  }
}

TEST_CASE("settings: all variables of the page are known") {
  const child_result result = run_child(
      described_child,
      {"HIPVMM_HOST_PROFILE=strict", "HIPVMM_HOST_DEVICES=2", "HIPVMM_HOST_MEMORY=8MiB",
       "HIPVMM_HOST_REPORTED_MEMORY=8MiB", "HIPVMM_HOST_PEERS=none", "HIPVMM_HOST_GRANULARITY=2MiB",
       "HIPVMM_HOST_ADDRESS_SPACE=1GiB", "HIPVMM_HOST_CHECK=1", "HIPVMM_HOST_REUSE_HANDLES=1",
       "HIPVMM_HOST_FAULTS=memory=8MiB", "HIPVMM_HOST_LEAKS=1", "HIPVMM_HOST_PAGEABLE=1",
       "HIPVMM_HOST_FABRIC=1", "HIPVMM_HOST_CONCURRENT_MANAGED=0", "HIPVMM_HOSTS=many",
       "TEST_DEVICES=2", "TEST_MEMORY=8388608", "TEST_GRANULARITY=2097152"});
  CAPTURE(result.output);
  CHECK(passed(result));
}

TEST_CASE("settings: a fault plan that is not understood ends every call, with one sentence") {
  const child_result result = run_child(refused_child, {"HIPVMM_HOST_FAULTS=hipMalloc nth=2"});
  CAPTURE(result.output);
  CHECK(passed(result));
  CHECK(result.output.find(
            "hipvmm host provider: HIPVMM_HOST_FAULTS: the rule \"hipMalloc nth=2\" "
            "is not valid: it does nothing: add error=NAME, delay=TIME, abort or kill.") !=
        std::string::npos);
}

TEST_CASE("settings: the environment describes the devices") {
  struct good {
    std::vector<std::string> environment;
    const char* devices;
    const char* memory;
    const char* granularity;
  };
  for (const good& each : {
           good{{"HIPVMM_HOST_MEMORY=1GiB"}, "3", "1073741824", "2097152"},
           good{{"HIPVMM_HOST_MEMORY=12345678"}, "3", "12345678", "2097152"},
           good{{"HIPVMM_HOST_MEMORY=4096KiB", "HIPVMM_HOST_GRANULARITY=64KiB"},
                "3",
                "4194304",
                "65536"},
           good{{"HIPVMM_HOST_MEMORY=2TiB", "HIPVMM_HOST_DEVICES=64", "HIPVMM_HOST_PEERS=all"},
                "64",
                "2199023255552",
                "2097152"},
           good{{"HIPVMM_HOST_MEMORY=8MiB", "HIPVMM_HOST_DEVICES=1", "HIPVMM_HOST_PEERS=none"},
                "1",
                "8388608",
                "2097152"},
       }) {
    std::vector<std::string> environment = each.environment;
    environment.push_back(std::string{"TEST_DEVICES="} + each.devices);
    environment.push_back(std::string{"TEST_MEMORY="} + each.memory);
    environment.push_back(std::string{"TEST_GRANULARITY="} + each.granularity);
    check_child(described_child, environment);
  }
}

HIPVMM_TEST_CASE_IN("settings: devices may reach all memory of the host",
                    {"HIPVMM_HOST_PAGEABLE=1"}) {
  int reached = 0;
  REQUIRE(hipDeviceGetAttribute(&reached, hipDeviceAttributePageableMemoryAccess, 0) == hipSuccess);
  CHECK(reached == 1);
  std::vector<std::byte> ordinary(4096);
  CHECK(fill_and_wait(ordinary.data(), 7, ordinary.size()) == hipSuccess);
  CHECK(ordinary == std::vector<std::byte>(4096, std::byte{7}));
  CHECK(hipMemAdvise(ordinary.data(), 4096, hipMemAdviseSetPreferredLocation, 0) == hipSuccess);
  CHECK(hipMemAdvise(ordinary.data(), 4096, hipMemAdviseSetPreferredLocation, 99) ==
        hipErrorInvalidDevice);
  CHECK(hipMemPrefetchAsync(ordinary.data(), 4096, 0, nullptr) == hipSuccess);
  int place = 0;
  CHECK(hipMemRangeGetAttribute(&place, sizeof(place), hipMemRangeAttributePreferredLocation,
                                ordinary.data(), 4096) == hipErrorInvalidValue);
}

HIPVMM_TEST_CASE_IN("settings: devices and the host may take turns with managed memory",
                    {"HIPVMM_HOST_CONCURRENT_MANAGED=0"}) {
  int at_once = 1;
  REQUIRE(hipDeviceGetAttribute(&at_once, hipDeviceAttributeConcurrentManagedAccess, 0) ==
          hipSuccess);
  CHECK(at_once == 0);
  void* managed = nullptr;
  REQUIRE(hipMallocManaged(&managed, 4096, hipMemAttachGlobal) == hipSuccess);
  CHECK(hipMemPrefetchAsync(managed, 4096, 0, nullptr) == hipErrorInvalidDevice);
  CHECK(hipMemPrefetchAsync(managed, 4096, hipCpuDeviceId, nullptr) == hipErrorInvalidDevice);
  for (const hipMemoryAdvise each :
       {hipMemAdviseSetPreferredLocation, hipMemAdviseSetAccessedBy, hipMemAdviseUnsetAccessedBy}) {
    CHECK(hipMemAdvise(managed, 4096, each, 0) == hipErrorInvalidDevice);
    CHECK(hipMemAdvise(managed, 4096, each, hipCpuDeviceId) == hipSuccess);
  }
  CHECK(hipMemAdvise(managed, 4096, hipMemAdviseSetReadMostly, 0) == hipSuccess);
  CHECK(hipFree(managed) == hipSuccess);
}

HIPVMM_CHILD("the devices are those that TEST_BUSES names") {
  std::string buses;
  int count = 0;
  const hipError_t code = hipGetDeviceCount(&count);
  for (int id = 0; id < count; ++id) {
    int bus = 0;
    CHECK(hipDeviceGetAttribute(&bus, hipDeviceAttributePciBusId, id) == hipSuccess);
    buses += std::to_string(bus);
  }
  CHECK(buses == std::getenv("TEST_BUSES"));
  CHECK(code == (count == 0 ? hipErrorNoDevice : hipSuccess));
}

TEST_CASE("settings: the process sees the devices that AMD's variables leave it, in their order") {
  struct row {
    std::vector<std::string> environment;
    const char* buses;
  };
  for (const row& each :
       {row{{"HIP_VISIBLE_DEVICES=1"}, "2"}, row{{"HIP_VISIBLE_DEVICES=2,0"}, "31"},
        row{{"HIP_VISIBLE_DEVICES=0,5,1"}, "1"}, row{{"HIP_VISIBLE_DEVICES=1,-1,0"}, "2"},
        row{{"HIP_VISIBLE_DEVICES=1,1,0"}, "21"}, row{{"HIP_VISIBLE_DEVICES=1, 0"}, "2"},
        row{{"HIP_VISIBLE_DEVICES=00"}, ""}, row{{"HIP_VISIBLE_DEVICES=-1"}, ""},
        row{{"HIP_VISIBLE_DEVICES="}, ""}, row{{"CUDA_VISIBLE_DEVICES=2"}, "3"},
        row{{"HIP_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=2"}, "1"},
        row{{"ROCR_VISIBLE_DEVICES=2,1"}, "32"},
        row{{"ROCR_VISIBLE_DEVICES=2,1", "HIP_VISIBLE_DEVICES=1"}, "2"},
        row{{"ROCR_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=1"}, ""}}) {
    std::vector<std::string> environment = each.environment;
    environment.push_back(std::string{"TEST_BUSES="} + each.buses);
    const child_result result =
        run_child("the devices are those that TEST_BUSES names", environment);
    CAPTURE(each.environment.front());
    CAPTURE(result.output);
    CHECK(passed(result));
  }
}

HIPVMM_CHILD("device 1 is the machine's first and has its links") {
  int linked = 7;
  CHECK(hipDeviceCanAccessPeer(&linked, 0, 1) == hipSuccess);
  CHECK(linked == 1);
  CHECK(hipDeviceCanAccessPeer(&linked, 1, 2) == hipSuccess);
  CHECK(linked == 0);
  hipUUID uuid{};
  CHECK(hipDeviceGetUuid(&uuid, 1) == hipSuccess);
  CHECK(std::string(uuid.bytes, sizeof(uuid.bytes)) == std::getenv("TEST_UUID"));
}

TEST_CASE("settings: a device keeps its links and its identity whatever number it has") {
  hipUUID uuid{};
  REQUIRE(hipDeviceGetUuid(&uuid, 0) == hipSuccess);
  check_child(
      "device 1 is the machine's first and has its links",
      {"HIP_VISIBLE_DEVICES=1,0,2", "TEST_UUID=" + std::string(uuid.bytes, sizeof(uuid.bytes))});
}

HIPVMM_TEST_CASE_IN("settings: HIPVMM_HOST_REPORTED_MEMORY is the total, not what may be used",
                    {"HIPVMM_HOST_REPORTED_MEMORY=4MiB"}) {
  constexpr std::size_t reported = std::size_t{4} << 20U;
  size_t free_bytes = 0;
  size_t total = 0;
  CHECK(hipMemGetInfo(&free_bytes, &total) == hipSuccess);
  CHECK(total == reported);
  CHECK(free_bytes == device_budget);
  CHECK(hipDeviceTotalMem(&total, 0) == hipSuccess);
  CHECK(total == reported);
  hipDeviceProp_t properties{};
  CHECK(hipGetDeviceProperties(&properties, 0) == hipSuccess);
  CHECK(properties.totalGlobalMem == reported);
  CHECK(properties.integrated == 1);
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, 2 * reported) == hipSuccess);
  CHECK(hipFree(pointer) == hipSuccess);
}

HIPVMM_TEST_CASE_IN("settings: HIP_HIDDEN_FREE_MEM is not told as free, and may be used",
                    {"HIP_HIDDEN_FREE_MEM=100"}) {
  size_t free_bytes = 0;
  size_t total = 0;
  CHECK(hipMemGetInfo(&free_bytes, &total) == hipSuccess);
  CHECK(total == device_budget);
  CHECK(free_bytes == device_budget - (std::size_t{100} << 20U));
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, device_budget - granule) == hipSuccess);
  CHECK(hipMemGetInfo(&free_bytes, nullptr) == hipSuccess);
  CHECK(free_bytes == 0);
  CHECK(hipFree(pointer) == hipSuccess);
}
