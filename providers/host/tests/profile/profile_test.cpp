// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/hip_compat.hpp"
#include "profile_rules.hpp"
#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::size_t current_profile() {
  const auto found =
      std::find(profile_names.begin(), profile_names.end(), variable("HIPVMM_HOST_PROFILE"));
  REQUIRE(found != profile_names.end());
  return static_cast<std::size_t>(found - profile_names.begin());
}

std::string setting(std::string_view profile) {
  return "HIPVMM_HOST_PROFILE=" + std::string{profile};
}

child_result ask_alone(std::string_view profile, const rule& asked) {
  return run_child("one rule is as the profile says",
                   {setting(profile), "TEST_QUESTION=" + std::string{asked.question}});
}

}  // namespace

HIPVMM_CHILD("every rule is as the profile says") {
  const std::size_t profile = current_profile();
  for (const rule& each : all_rules()) {
    if (each.answers[profile] == no_answer || each.answers[profile] == crashes) continue;
    CAPTURE(each.question);
    const int expected = each.answers[profile];
    CHECK(each.ask() == expected);
    REQUIRE(hipSetDevice(0) == hipSuccess);
  }
}

HIPVMM_CHILD("one rule is as the profile says") {
  const std::size_t profile = current_profile();
  for (const rule& each : all_rules()) {
    const int expected = each.answers[profile];
    if (each.question == variable("TEST_QUESTION")) CHECK(each.ask() == expected);
  }
}

TEST_CASE("profile: every release keeps the rules of its table" * names_its_profiles) {
  for (const std::string_view profile : profile_names) {
    CAPTURE(profile);
    check_child("every rule is as the profile says", {setting(profile)});
  }
}

TEST_CASE("profile: every rule tells two releases apart") {
  for (const rule& each : all_rules()) {
    CAPTURE(each.question);
    std::vector<int> answers;
    for (const int answer : each.answers) {
      if (answer != no_answer) answers.push_back(answer);
    }
    CHECK(std::adjacent_find(answers.begin(), answers.end(), std::not_equal_to<>{}) !=
          answers.end());
  }
}

TEST_CASE("profile: a crash of a release ends the process with one sentence" * names_its_profiles) {
  for (const rule& each : all_rules()) {
    for (std::size_t i = 0; i < profile_names.size(); ++i) {
      if (each.answers[i] != crashes) continue;
      CAPTURE(each.question);
      CAPTURE(profile_names[i]);
      const child_result result = ask_alone(profile_names[i], each);
      CAPTURE(result.output);
      CHECK(result.status == 128 + SIGABRT);
      const std::string sentence =
          " under " + setting(profile_names[i]) + " would crash here, because it ";
      CHECK(result.output.find("hipvmm host provider: hip") != std::string::npos);
      CHECK(result.output.find(sentence) != std::string::npos);
      CHECK(result.output.find(" (ROCm/") != std::string::npos);
    }
  }
}

HIPVMM_CHILD("a fill inside an element of memory that is not HIP's") {
  alignas(4) std::array<char, 64> own = {};
  CHECK(hipMemsetD32(own.data() + 1, 0, 4) == hipErrorInvalidValue);
}

TEST_CASE("profile: a fill inside an element is refused where the memory is not HIP's") {
  for (const std::string_view profile : profile_names) {
    CAPTURE(profile);
    const child_result result =
        run_child("a fill inside an element of memory that is not HIP's", {setting(profile)});
    CAPTURE(result.output);
    CHECK(passed(result));
  }
}

HIPVMM_CHILD("the host reads mapped memory of a device") {
  const mapped memory{granule};
  const volatile std::byte* const first = memory.at();
  static_cast<void>(*first);
}

TEST_CASE("profile: on a GPU the host may not touch what devices may") {
  for (const std::string_view profile : profile_names) {
    if (profile == "rocm-5.7") continue;  // has no mapped memory
    const child_result result =
        run_child("the host reads mapped memory of a device", {setting(profile)});
    CAPTURE(profile);
    CAPTURE(result.output);
    CHECK(passed(result) == (profile == "strict"));
    CHECK(was_segv(result) == (profile != "strict"));
  }
}

TEST_CASE("profile: HIPVMM_HOST_TOUCH goes before the profile") {
  for (const std::string_view profile : {"strict", "rocm-6.4", "rocm-7.2", "cuda-13"}) {
    CAPTURE(profile);
    CHECK(passed(run_child("the host reads mapped memory of a device",
                           {setting(profile), "HIPVMM_HOST_TOUCH=devices"})));
    const child_result result = run_child("the host reads mapped memory of a device",
                                          {setting(profile), "HIPVMM_HOST_TOUCH=granted"});
    CAPTURE(result.output);
    CHECK(was_segv(result));
    CHECK(result.output.find("host code touched 0x") != std::string::npos);
    CHECK(result.output.find(", device memory (mapping of " + std::to_string(granule) +
                             " bytes of device 0)") != std::string::npos);
  }
}

HIPVMM_CHILD("the host reads addresses behind mapped memory") {
  const mapped memory{granule};
  void* reserved = nullptr;
  REQUIRE(hipMemAddressReserve(&reserved, granule, 0, nullptr, 0) == hipSuccess);
  static_cast<void>(*static_cast<const volatile std::byte*>(reserved));
}

HIPVMM_CHILD("the host reads address zero beside mapped memory") {
  const mapped memory{granule};
  static_cast<void>(*reinterpret_cast<const volatile std::byte*>(std::uintptr_t{8}));
}

TEST_CASE("profile: only what devices' addresses have to do with is told of") {
  const std::vector<std::string> granted{setting("strict"), "HIPVMM_HOST_TOUCH=granted"};
  const child_result reserved = run_child("the host reads addresses behind mapped memory", granted);
  CHECK(was_segv(reserved));
  CHECK(reserved.output.find(" bytes) at which nothing is mapped.") != std::string::npos);
  const child_result other = run_child("the host reads address zero beside mapped memory", granted);
  CHECK(was_segv(other));
  CHECK(other.output.find("host code touched") == std::string::npos);
}

HIPVMM_CHILD("a handler of the program's mends what the host reads") {
  static std::atomic<int> seen{0};
  static std::byte* at = nullptr;
  struct sigaction own {};
  own.sa_sigaction = [](int, siginfo_t* info, void*) {
    ++seen;
    if (info->si_addr != at) ::_exit(97);
    ::mprotect(at, granule, PROT_READ);
  };
  own.sa_flags = SA_SIGINFO;
  REQUIRE(::sigaction(SIGSEGV, &own, nullptr) == 0);
  const mapped memory{granule};
  at = memory.at();
  static_cast<void>(*static_cast<const volatile std::byte*>(at));
  CHECK(seen == 1);
}

TEST_CASE("profile: the program's own handler runs after the sentence") {
  const child_result result = run_child("a handler of the program's mends what the host reads",
                                        {setting("strict"), "HIPVMM_HOST_TOUCH=granted"});
  CAPTURE(result.output);
  CHECK(passed(result));
  CHECK(result.output.find("host code touched") != std::string::npos);
}

HIPVMM_CHILD("the host reads mapped memory that it was granted") {
  const mapped memory{granule};
  REQUIRE(hipMemset(memory.at(), 7, granule) == hipSuccess);
  REQUIRE(hipDeviceSynchronize() == hipSuccess);
  hipMemAccessDesc host{};
  host.location.type = not_an_enumerator<hipMemLocationType>(hipvmm::hip_compat::host_location);
  host.flags = hipMemAccessFlagsProtRead;
  REQUIRE(hipMemSetAccess(memory.at(), granule, &host, 1) == hipSuccess);
  CHECK(*memory.at() == std::byte{7});
}

TEST_CASE("profile: the host may touch what it was granted itself") {
  for (const std::string_view profile : {"rocm-7.2", "rocm-7.14"}) {
    const child_result result =
        run_child("the host reads mapped memory that it was granted", {setting(profile)});
    CAPTURE(profile);
    CAPTURE(result.output);
    CHECK(passed(result));
  }
}

HIPVMM_CHILD("there is no device for anything") {
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, 1) == hipErrorNoDevice);
}

TEST_CASE("profile: without a device every release says so from every call") {
  for (const std::string_view profile : profile_names) {
    const child_result result =
        run_child("there is no device for anything",
                  {setting(profile), "HIPVMM_HOST_DEVICES=0", "HIPVMM_HOST_PEERS=none"});
    CAPTURE(profile);
    CAPTURE(result.output);
    CHECK(passed(result));
  }
}

HIPVMM_TEST_CASE_IN("profile: HIPVMM_HOST_GRANULARITY goes before the profile",
                    {setting("rocm-7.14"), "HIPVMM_HOST_GRANULARITY=64KiB"}) {
  const hipMemAllocationProp properties = chunk_on(0);
  for (const auto option :
       {hipMemAllocationGranularityMinimum, hipMemAllocationGranularityRecommended}) {
    size_t bytes = 0;
    CHECK(hipMemGetAllocationGranularity(&bytes, &properties, option) == hipSuccess);
    CHECK(bytes == std::size_t{64} << 10U);
  }
}

HIPVMM_CHILD("a granularity is told of each place and type of a chunk") {
  hipMemAllocationProp wanted = chunk_on(0);
  for (const int type :
       {int{hipMemAllocationTypePinned}, hipvmm::hip_compat::uncached_allocation}) {
    for (const int place : {int{hipMemLocationTypeDevice}, hipvmm::hip_compat::host_location,
                            hipvmm::hip_compat::host_node_location}) {
      CAPTURE(type);
      CAPTURE(place);
      wanted.type = not_an_enumerator<hipMemAllocationType>(type);
      wanted.location.type = not_an_enumerator<hipMemLocationType>(place);
      size_t bytes = 0;
      hipMemGenericAllocationHandle_t made = nullptr;
      const hipError_t code = hipMemCreate(&made, granule, &wanted, 0);
      CHECK(hipMemGetAllocationGranularity(&bytes, &wanted, hipMemAllocationGranularityMinimum) ==
            code);
      if (code == hipSuccess) CHECK(hipMemRelease(made) == hipSuccess);
    }
  }
}

TEST_CASE("profile: a release that creates a chunk tells its granularity") {
  for (const std::string_view profile : profile_names) {
    CAPTURE(profile);
    check_child("a granularity is told of each place and type of a chunk", {setting(profile)});
  }
}
