// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "providers/host/tests/fixtures.hpp"
#include "providers/host/tests/pool/sharing_fixture.hpp"

using namespace hipvmm::test;

namespace {

class fault_rules {
 public:
  explicit fault_rules(const std::string& plan) { replace(plan); }
  ~fault_rules() { CHECK(hipvmm_host_set_faults(nullptr) == nullptr); }
  fault_rules& operator=(fault_rules&&) = delete;

  static void replace(const std::string& plan) {
    const char* const complaint = hipvmm_host_set_faults(plan.c_str());
    INFO(plan << ": " << (complaint == nullptr ? "" : complaint));
    REQUIRE(complaint == nullptr);
  }
};

std::vector<bool> failures_of(int calls) {
  std::vector<bool> failed;
  for (int i = 0; i < calls; ++i) failed.push_back(hipSetDevice(0) != hipSuccess);
  static_cast<void>(hipGetLastError());
  return failed;
}

std::size_t failures_in(const std::vector<bool>& failed) {
  return static_cast<std::size_t>(std::count(failed.begin(), failed.end(), true));
}

std::vector<std::byte> read_back(const std::byte* from, std::size_t bytes) {
  std::vector<std::byte> host(bytes, std::byte{0xEE});
  REQUIRE(hipMemcpy(host.data(), from, bytes, hipMemcpyDeviceToHost) == hipSuccess);
  return host;
}

constexpr const char* killed_child = "calls hipSetDevice three times";

}  // namespace

TEST_CASE("fault_plan: a rule that is not understood is quoted with what it accepts") {
  struct bad {
    const char* plan;
    const char* says;
  };
  const fault_rules before{"hipMalloc error=hipErrorOutOfMemory"};
  for (const bad& each : {
           bad{"hipMaloc error=hipErrorUnknown", "\"hipMaloc\" is neither a HIP function"},
           bad{"hipMalloc", "it does nothing"},
           bad{"hipMalloc nth=3", "it does nothing"},
           bad{"hipMalloc nth=0 error=hipErrorUnknown", "nth takes a whole number from 1"},
           bad{"hipMalloc nth=two error=hipErrorUnknown", "not \"two\""},
           bad{"hipMalloc error=hipErrorOops", "error takes a name"},
           bad{"hipMalloc error=hipSuccess", "error takes a name"},
           bad{"hipMalloc error=hipErrorUnknown probability=1.5", "a number from 0 to 1"},
           bad{"any error=hipErrorUnknown probability=-0.1", "a number from 0 to 1"},
           bad{"any error=hipErrorUnknown seed=x", "seed takes a whole number"},
           bad{"any delay=2", "delay takes a time"},
           bad{"any delay=99999999999999999999ns", "delay takes a time"},
           bad{"any kill=0", "the id of a process"},
           bad{"any kill=-1", "the id of a process"},
           bad{"any kill=99999999999", "the id of a process"},
           bad{"any slow=2ms", "\"slow=2ms\" is none of"},
           bad{"memory=1GB", "memory takes bytes"},
           bad{"memory=1GiB descriptors=3", "a limit, which stands alone"},
           bad{"descriptors=-3", "descriptors takes a whole number"},
           bad{"visible_after=soon", "visible_after takes a time"},
           bad{"aliases=coherent", "aliases takes incoherent, not \"coherent\""},
           bad{"hints=taken", "hints takes ignored, not \"taken\""},
           bad{"files=3", "\"files\" is none of the limits"},
           bad{"any delay=1ns; files=3", "the rule \" files=3\""},
       }) {
    CAPTURE(each.plan);
    const char* const complaint = hipvmm_host_set_faults(each.plan);
    REQUIRE(complaint != nullptr);
    CAPTURE(complaint);
    CHECK(std::string{complaint}.find(each.says) != std::string::npos);
  }
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, 64) == hipErrorOutOfMemory);  // the plan from before stayed
}

TIDY_CASE("fault_plan: a rule without a condition strikes every call of its function alone") {
  const fault_rules plan{" hipMalloc error=hipErrorOutOfMemory ; "};
  void* pointer = nullptr;
  for (int i = 0; i < 3; ++i) CHECK(hipMalloc(&pointer, 64) == hipErrorOutOfMemory);
  CHECK(hipSetDevice(0) == hipSuccess);
}

TEST_CASE("fault_plan: the nth call fails once") {
  const fault_rules plan{"hipSetDevice nth=3 error=hipErrorUnknown"};
  CHECK(failures_of(8) == std::vector<bool>{false, false, true, false, false, false, false, false});
}

TIDY_CASE("fault_plan: a call that a rule fails does nothing") {
  const fault_rules plan{"hipMemCreate error=hipErrorUnknown"};
  const hipMemAllocationProp properties = chunk_on(0);
  const auto before = as_handle<hipMemGenericAllocationHandle_t>(77);
  hipMemGenericAllocationHandle_t handle = before;
  CHECK(hipMemCreate(&handle, granule, &properties, 0) == hipErrorUnknown);
  CHECK(handle == before);
  CHECK(hipGetLastError() == hipErrorUnknown);
}

TEST_CASE("fault_plan: a rule for any function strikes whichever is called") {
  const fault_rules plan{"any nth=2 error=hipErrorUnknown"};
  int device = 0;
  CHECK(hipGetDevice(&device) == hipSuccess);
  CHECK(hipGetDeviceCount(&device) == hipErrorUnknown);
  CHECK(hipGetDevice(&device) == hipSuccess);
}

TEST_CASE("fault_plan: the first rule that fails a call says with which error") {
  const fault_rules plan{
      "hipSetDevice nth=1 error=hipErrorNotSupported; any error=hipErrorUnknown"};
  CHECK(hipSetDevice(0) == hipErrorNotSupported);
  CHECK(hipSetDevice(0) == hipErrorUnknown);
}

TEST_CASE("fault_plan: a probability strikes about as often as it says, and by its seed") {
  const auto run = [](const std::string& how) {
    const fault_rules plan{"hipSetDevice error=hipErrorUnknown " + how};
    return failures_of(2000);
  };
  const std::vector<bool> first = run("probability=0.25 seed=7");
  CHECK(failures_in(first) > 400);
  CHECK(failures_in(first) < 600);
  CHECK(run("seed=7 probability=0.25") == first);
  CHECK(run("probability=0.25 seed=8") != first);
  CHECK(failures_in(run("probability=0")) == 0);
  CHECK(failures_in(run("probability=1")) == 2000);
}

TEST_CASE("fault_plan: a delay slows the call down and lets it succeed") {
  const fault_rules plan{"hipSetDevice delay=3ms"};
  const auto start = std::chrono::steady_clock::now();
  CHECK(hipSetDevice(0) == hipSuccess);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds{3});
}

TEST_CASE("fault_plan: fail_call and the rules do not replace each other") {
  const fault_rules plan{"hipSetDevice nth=2 error=hipErrorUnknown"};
  hipvmm_host_fail_call("hipSetDevice", 1, hipErrorNotSupported);
  CHECK(hipSetDevice(0) == hipErrorNotSupported);
  CHECK(hipvmm_host_fault_struck() == 1);
  CHECK(hipSetDevice(0) == hipErrorUnknown);
  hipvmm_host_fail_call(nullptr, 0, 0);
}

TIDY_CASE("fault_plan: a memory limit stops chunks, hipMalloc and pools, and hides nothing") {
  size_t free_before = 0;
  size_t total_before = 0;
  REQUIRE(hipMemGetInfo(&free_before, &total_before) == hipSuccess);
  const fault_rules plan{"memory=4MiB"};
  void* pointer = nullptr;
  {
    const memory first{granule};
    const hipMemAllocationProp properties = chunk_on(0);
    hipMemGenericAllocationHandle_t handle = nullptr;
    CHECK(hipMemCreate(&handle, 2 * granule, &properties, 0) == hipErrorOutOfMemory);
    CHECK(hipMalloc(&pointer, 2 * granule) == hipErrorOutOfMemory);
    CHECK(hipMallocAsync(&pointer, 2 * granule, nullptr) == hipErrorOutOfMemory);
    const memory second{granule};
    const memory elsewhere{granule, 1};   // each device has its own
    fault_rules::replace("memory=1MiB");  // less than is in use
    CHECK(hipMalloc(&pointer, 1) == hipErrorOutOfMemory);
  }
  size_t free_after = 0;
  size_t total_after = 0;
  CHECK(hipMemGetInfo(&free_after, &total_after) == hipSuccess);
  CHECK(free_after == free_before);
  CHECK(total_after == total_before);
}

TIDY_CASE("fault_plan: reservations begin elsewhere where hints are ignored") {
  void* first = nullptr;
  REQUIRE(hipMemAddressReserve(&first, 2 * granule, 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemAddressFree(first, 2 * granule) == hipSuccess);
  {
    const fault_rules plan{"hints=ignored"};
    void* other = nullptr;
    REQUIRE(hipMemAddressReserve(&other, 2 * granule, 0, first, 0) == hipSuccess);
    CHECK(other != first);
    REQUIRE(hipMemAddressFree(other, 2 * granule) == hipSuccess);
  }
  void* again = nullptr;
  REQUIRE(hipMemAddressReserve(&again, granule, 0, first, 0) == hipSuccess);
  CHECK(again == first);
  REQUIRE(hipMemAddressFree(again, granule) == hipSuccess);
}

TIDY_CASE("fault_plan: a descriptor limit stops chunks and imports, not hipMalloc") {
  const fault_rules plan{"descriptors=2"};
  const memory first{granule, 0, posix};
  int exported = -1;
  REQUIRE(hipMemExportToShareableHandle(&exported, first.get(), posix, 0) == hipSuccess);
  const file shared{exported};
  const allocation not_counted{64};
  {
    const memory second{granule};
    const hipMemAllocationProp properties = chunk_on(0);
    hipMemGenericAllocationHandle_t handle = nullptr;
    CHECK(hipMemCreate(&handle, granule, &properties, 0) == hipErrorOutOfMemory);
    CHECK(hipMemImportFromShareableHandle(&handle, by_value(shared.get()), posix) ==
          hipErrorOutOfMemory);
    CHECK(handle == nullptr);
  }
  const memory third{granule};
}

TIDY_CASE("fault_plan: a chunk that only its mapping keeps still counts") {
  const mapped kept{granule};
  const fault_rules plan{"descriptors=1"};
  const hipMemAllocationProp properties = chunk_on(0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  CHECK(hipMemCreate(&handle, granule, &properties, 0) == hipErrorOutOfMemory);
}

TIDY_CASE("fault_plan: a new mapping that is not visible yet reads as zeros and loses writes") {
  const memory chunk{granule};
  const reservation old_addresses{granule};
  const reservation new_addresses{granule};
  const hipMemAccessDesc own = access_of(0);
  REQUIRE(hipMemMap(old_addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
  REQUIRE(hipMemSetAccess(old_addresses.at(), granule, &own, 1) == hipSuccess);
  REQUIRE(hipMemset(old_addresses.at(), 7, granule) == hipSuccess);
  {
    const fault_rules plan{"visible_after=1000000s"};
    REQUIRE(hipMemMap(new_addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(new_addresses.at(), granule, &own, 1) == hipSuccess);
    CHECK(equal(read_back(new_addresses.at(), 4096).data(), bytes_of(4096, 0)));
    CHECK(equal(read_back(old_addresses.at(), 4096).data(), bytes_of(4096, 7)));
    CHECK(hipMemset(new_addresses.at(), 9, granule) == hipSuccess);
    const std::vector<std::byte> host = bytes_of(4096, 9);
    CHECK(hipMemcpy(new_addresses.at(), host.data(), 4096, hipMemcpyHostToDevice) == hipSuccess);
    CHECK(equal(read_back(old_addresses.at(), granule).data(), bytes_of(granule, 7)));
  }
  hipvmm_host_show_mappings();
  CHECK(equal(read_back(new_addresses.at(), granule).data(), bytes_of(granule, 7)));
  CHECK(hipMemset(new_addresses.at(), 9, granule) == hipSuccess);
  CHECK(equal(read_back(old_addresses.at(), granule).data(), bytes_of(granule, 9)));
  CHECK(hipMemUnmap(new_addresses.at(), granule) == hipSuccess);
  CHECK(hipMemUnmap(old_addresses.at(), granule) == hipSuccess);
}

TIDY_CASE("fault_plan: mappings become visible by themselves when the time is over") {
  const fault_rules plan{"visible_after=1ns; hipMemSetAccess delay=1us"};
  const mapped memory{granule};
  REQUIRE(hipMemset(memory.at(), 5, granule) == hipSuccess);
  CHECK(equal(read_back(memory.at(), granule).data(), bytes_of(granule, 5)));
}

TIDY_CASE("fault_plan: an incoherent alias misses what is written at the first address") {
  const fault_rules plan{"aliases=incoherent"};
  const memory chunk{granule};
  const reservation first{granule};
  const reservation second{granule};
  const hipMemAccessDesc own = access_of(0);
  const auto map = [&](const reservation& at) {
    REQUIRE(hipMemMap(at.at(), granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(at.at(), granule, &own, 1) == hipSuccess);
  };
  const auto holds = [](const reservation& at, int byte) {
    return equal(read_back(at.at(), granule).data(), bytes_of(granule, byte));
  };
  map(first);
  REQUIRE(hipMemset(first.at(), 1, granule) == hipSuccess);
  REQUIRE(holds(first, 1));
  map(second);
  CHECK(holds(second, 1));
  REQUIRE(hipMemset(first.at(), 2, granule) == hipSuccess);
  CHECK(holds(first, 2));
  CHECK(holds(second, 1));
  // The alias reads its own writes, which reach the memory.
  REQUIRE(hipMemset(second.at(), 3, granule) == hipSuccess);
  CHECK(holds(second, 3));
  CHECK(holds(first, 3));
  REQUIRE(hipMemcpy(first.at(), bytes_of(granule, 4).data(), granule, hipMemcpyHostToDevice) ==
          hipSuccess);
  CHECK(holds(second, 3));
  // The last address that is left is coherent.
  REQUIRE(hipMemUnmap(first.at(), granule) == hipSuccess);
  CHECK(holds(second, 4));
  REQUIRE(hipMemUnmap(second.at(), granule) == hipSuccess);
}

TIDY_CASE("fault_plan: an incoherent alias knows zeros of memory that nobody has written") {
  const fault_rules plan{"aliases=incoherent"};
  // Its bytes come before those of the fresh chunk in the device's file.
  const mapped written{granule};
  REQUIRE(hipMemset(written.at(), 9, granule) == hipSuccess);
  const memory fresh{granule};
  const reservation both{2 * granule};
  const hipMemAccessDesc own = access_of(0);
  for (const std::size_t at : {std::size_t{0}, granule})
    REQUIRE(hipMemMap(both.at(at), granule, 0, fresh.get(), 0) == hipSuccess);
  REQUIRE(hipMemSetAccess(both.at(), 2 * granule, &own, 1) == hipSuccess);
  CHECK(equal(read_back(both.at(granule), granule).data(), bytes_of(granule, 0)));
  for (const std::size_t at : {std::size_t{0}, granule})
    REQUIRE(hipMemUnmap(both.at(at), granule) == hipSuccess);
}

TIDY_CASE("fault_plan: incoherent aliases are coherent when the plan ends") {
  const memory shared{granule};
  const reservation both{2 * granule};
  const hipMemAccessDesc own = access_of(0);
  {
    const fault_rules plan{"aliases=incoherent"};
    for (const std::size_t at : {std::size_t{0}, granule})
      REQUIRE(hipMemMap(both.at(at), granule, 0, shared.get(), 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(both.at(), 2 * granule, &own, 1) == hipSuccess);
    REQUIRE(hipMemset(both.at(), 9, granule) == hipSuccess);
    CHECK(equal(read_back(both.at(granule), granule).data(), bytes_of(granule, 0)));
  }
  CHECK(equal(read_back(both.at(granule), granule).data(), bytes_of(granule, 9)));
  for (const std::size_t at : {std::size_t{0}, granule})
    REQUIRE(hipMemUnmap(both.at(at), granule) == hipSuccess);
}

TIDY_CASE("fault_plan: another process is killed at a point of this one's calls") {
  const pid_t peer = fork();
  REQUIRE(peer >= 0);
  if (peer == 0) {
    for (;;) pause();
  }
  const fault_rules plan{"hipSetDevice nth=2 kill=" + std::to_string(peer)};
  CHECK(hipSetDevice(0) == hipSuccess);
  CHECK(kill(peer, 0) == 0);
  CHECK(hipSetDevice(0) == hipSuccess);  // a rule that kills does not fail the call
  int status = 0;
  CHECK(waitpid(peer, &status, 0) == peer);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

HIPVMM_CHILD("calls hipSetDevice three times") {
  for (int i = 0; i < 3; ++i) CHECK(hipSetDevice(0) == hipSuccess);
}

TEST_CASE("fault_plan: the process itself is killed at a point") {
  CHECK(run_child(killed_child, {"HIPVMM_HOST_FAULTS=hipSetDevice nth=3 kill"}).status ==
        128 + SIGKILL);
  check_child(killed_child, {"HIPVMM_HOST_FAULTS=hipSetDevice nth=4 kill"});
}

TEST_CASE("fault_plan: the process crashes at a point") {
  const child_result crashed =
      run_child(killed_child, {"HIPVMM_HOST_FAULTS=hipSetDevice nth=3 abort"});
  CHECK_MESSAGE(crashed.status == 128 + SIGABRT, crashed.output);
  check_child(killed_child, {"HIPVMM_HOST_FAULTS=hipSetDevice nth=4 abort"});
}

HIPVMM_TEST_CASE_IN("fault_plan: the environment's plan counts from the first call on",
                    {"HIPVMM_HOST_FAULTS=hipMalloc nth=2 error=hipErrorOutOfMemory"}) {
  void* first = nullptr;
  void* second = nullptr;
  CHECK(hipMalloc(&first, 64) == hipSuccess);
  CHECK(hipMalloc(&second, 64) == hipErrorOutOfMemory);
  CHECK(hipMalloc(&second, 64) == hipSuccess);
  CHECK(hipFree(first) == hipSuccess);
  CHECK(hipFree(second) == hipSuccess);
}
