// SPDX-License-Identifier: MIT
// Look-ups by programs: functions by name, devices by their properties, pointers.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include "fixtures.hpp"
#include "rules.hpp"

// AMD's 5.2 has not all of them, headers before 6 lack hipGetProcAddress, and that of
// hipCreateChannelDesc needs kernels' types.
extern "C" {
[[gnu::weak]] hipError_t get_proc_address(const char* symbol, void** function, int version,
                                          std::uint64_t flags,
                                          int* status) __asm__("hipGetProcAddress");
[[gnu::weak]] hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute attribute,
                                                hipDeviceptr_t pointer);
hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind);
}

using namespace hipvmm::test;

TEST_CASE("hipGetProcAddress: finds functions of HIP by their names") {
  if (get_proc_address == nullptr) {
    MESSAGE("skipped: this runtime has no hipGetProcAddress");
    return;
  }
  void* found = nullptr;
  int status = -1;
  const auto find = [&](const char* name, int version = 600) {
    return get_proc_address(name, &found, version, 0, &status);
  };
  REQUIRE(find("hipDeviceGet") == hipSuccess);
  CHECK(status == 0);
  hipDevice_t device = -1;
  REQUIRE(reinterpret_cast<hipError_t (*)(hipDevice_t*, int)>(found)(&device, 0) == hipSuccess);
  CHECK(device == 0);
  check_rules({
      {"no such function", [&] { return find("hipNoSuchFunction"); }},
      {"no function of HIP's", [&] { return find("malloc"); }},
      {"no name", [&] { return find(nullptr); }},
      {"an empty name", [&] { return find(""); }},
      {"no result", [&] { return get_proc_address("hipFree", nullptr, 600, 0, &status); }},
      {"no status", [&] { return get_proc_address("hipFree", &found, 600, 0, nullptr); },
       hipSuccess},
  });
  static_cast<void>(find("hipNoSuchFunction"));
  CHECK(found == nullptr);
  CHECK(status == 1);
  static_cast<void>(hipGetLastError());
}

TEST_CASE("hipChooseDevice: gives a device that exists") {
  hipDeviceProp_t wanted{};
  int chosen = -1;
  REQUIRE(hipChooseDevice(&chosen, &wanted) == hipSuccess);
  CHECK(chosen == 0);
  wanted.major = 1 << 20;  // as many as none has
  REQUIRE(hipChooseDevice(&chosen, &wanted) == hipSuccess);
  CHECK(chosen >= 0);
  CHECK(chosen < device_count());
  check_rules({
      {"no result", [&] { return hipChooseDevice(nullptr, &wanted); }},
      {"no properties", [&] { return hipChooseDevice(&chosen, nullptr); }},
  });
}

TEST_CASE("hipCreateChannelDesc: says what it was given") {
  const hipChannelFormatDesc made = hipCreateChannelDesc(8, 16, 32, 0, hipChannelFormatKindFloat);
  CHECK(made.x == 8);
  CHECK(made.y == 16);
  CHECK(made.z == 32);
  CHECK(made.w == 0);
  CHECK(made.f == hipChannelFormatKindFloat);
}

TEST_CASE("hipDrvPointerGetAttributes: answers each, and nothing of memory that is not HIP's") {
  const allocation memory{1000};
  void* start = nullptr;
  int device = -1;
  std::array<hipPointer_attribute, 2> wanted{HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                             HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 2> answers{&start, &device};
  REQUIRE(hipDrvPointerGetAttributes(2, wanted.data(), answers.data(), memory.get() + 8) ==
          hipSuccess);
  CHECK(start == memory.get());
  CHECK(device == 0);
  REQUIRE(hipDrvPointerGetAttributes(2, wanted.data(), answers.data(), &device) == hipSuccess);
  CHECK(start == nullptr);
  CHECK(device == hipInvalidDeviceId);
  check_rules({
      {"none",
       [&] { return hipDrvPointerGetAttributes(0, wanted.data(), answers.data(), memory.get()); }},
      {"no attributes",
       [&] { return hipDrvPointerGetAttributes(2, nullptr, answers.data(), memory.get()); }},
      {"no answers",
       [&] { return hipDrvPointerGetAttributes(2, wanted.data(), nullptr, memory.get()); }},
      {"null",
       [&] { return hipDrvPointerGetAttributes(2, wanted.data(), answers.data(), nullptr); }},
  });
}

TEST_CASE("hipPointerSetAttribute: has calls wait for copies of the memory") {
  if (hipPointerSetAttribute == nullptr) {
    MESSAGE("skipped: this runtime has no hipPointerSetAttribute");
    return;
  }
  const allocation memory{1000};
  const std::uint32_t on = 1;
  const std::uint32_t off = 0;
  bool told = false;
  const auto set = [&](const void* value, hipPointer_attribute what, void* at) {
    return hipPointerSetAttribute(value, what, at);
  };
  constexpr auto synchronous = HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  const auto is_synchronous = [&] {
    REQUIRE(hipPointerGetAttribute(&told, synchronous, memory.get()) == hipSuccess);
    return told;
  };
  CHECK(!is_synchronous());
  REQUIRE(set(&on, synchronous, memory.get()) == hipSuccess);
  CHECK(is_synchronous());
  REQUIRE(hipMemset(memory.get(), 3, 500) == hipSuccess);
  REQUIRE(hipMemcpy(memory.get() + 500, memory.get(), 500, hipMemcpyDeviceToDevice) == hipSuccess);
  CHECK(hipStreamQuery(nullptr) == hipSuccess);
  CHECK(byte_at(memory.get() + 999) == 3);
  REQUIRE(set(&off, synchronous, memory.get()) == hipSuccess);
  CHECK(!is_synchronous());
  int host = 0;
  check_rules({
      {"no value", [&] { return set(nullptr, synchronous, memory.get()); }},
      {"no pointer", [&] { return set(&on, synchronous, nullptr); }},
      {"another attribute",
       [&] { return set(&on, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory.get()); }},
      {"memory that is not HIP's", [&] { return set(&on, synchronous, &host); },
       hipErrorInvalidDevicePointer},
  });
}

TEST_CASE("hipMemPtrGetInfo: gives the bytes of the allocation around a pointer") {
  const allocation memory{1000};
  std::size_t bytes = 0;
  REQUIRE(hipMemPtrGetInfo(memory.get() + 8, &bytes) == hipSuccess);
  CHECK(bytes == 1000);
  check_rules({
      {"memory that is not HIP's", [&] { return hipMemPtrGetInfo(&bytes, &bytes); }},
      {"no result", [&] { return hipMemPtrGetInfo(memory.get(), nullptr); }},
  });
}

TEST_CASE("stream: its mask of compute units is what it was made with, but on CUDA") {
  hipStream_t made = nullptr;
  const std::uint32_t wanted = 1;
  const std::uint32_t none = 0;
  std::array<std::uint32_t, 64> told{};
  const auto create = [&](const std::uint32_t& mask) {
    return hipExtStreamCreateWithCUMask(&made, 1, &mask);
  };
  check_rules({
      {"no stream", [&] { return hipExtStreamCreateWithCUMask(nullptr, 1, &wanted); },
       hipErrorInvalidHandle},
      {"no words", [&] { return hipExtStreamCreateWithCUMask(&made, 0, &wanted); }},
      {"no mask", [&] { return hipExtStreamCreateWithCUMask(&made, 1, nullptr); }},
      {"no room", [&] { return hipExtStreamGetCUMask(nullptr, 0, told.data()); }},
      {"no result", [&] { return hipExtStreamGetCUMask(nullptr, 64, nullptr); }},
  });
  if (on_cuda) {
    CHECK(create(wanted) == hipErrorNotSupported);
    static_cast<void>(hipGetLastError());
    return;
  }
  REQUIRE(hipExtStreamGetCUMask(nullptr, 64, told.data()) == hipSuccess);
  const std::uint32_t all = told[0];
  CHECK((all & 1U) == 1U);
  REQUIRE(create(wanted) == hipSuccess);
  REQUIRE(hipExtStreamGetCUMask(made, 64, told.data()) == hipSuccess);
  CHECK(told[0] == 1);
  unsigned flags = 77;
  CHECK(hipStreamGetFlags(made, &flags) == hipSuccess);
  CHECK(flags == hipStreamDefault);
  CHECK(hipStreamDestroy(made) == hipSuccess);
  REQUIRE(create(none) == hipSuccess);  // all of them
  REQUIRE(hipExtStreamGetCUMask(made, 64, told.data()) == hipSuccess);
  CHECK(told[0] == all);
  CHECK(hipStreamDestroy(made) == hipSuccess);
}
