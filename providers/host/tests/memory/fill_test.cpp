// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "managed_fixture.hpp"
#include "providers/host/tests/fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

template <class Element>
bool filled(const std::byte* memory, std::size_t count, Element value) {
  std::vector<Element> elements(count);
  std::memcpy(elements.data(), memory, count * sizeof(Element));
  return std::all_of(elements.begin(), elements.end(),
                     [value](Element each) { return each == value; });
}

// The bytes by way of a copy, since not every profile lets the host touch mapped memory.
std::vector<std::byte> copied_in(const stream& reader, const std::byte* from, std::size_t bytes) {
  std::vector<std::byte> host(bytes, std::byte{0xEE});
  REQUIRE(hipMemcpyAsync(host.data(), from, bytes, hipMemcpyDeviceToHost, reader.get()) ==
          hipSuccess);
  REQUIRE(reader.wait() == hipSuccess);
  return host;
}

// Fills 256 bytes of zeros by each function that does not wait for device memory.
void check_fills_in_turn(std::byte* target) {
  const stream reader;
  roadblock ahead{nullptr};
  CHECK(hipMemset(target, 1, 64) == hipSuccess);
  CHECK(hipMemsetD8(target + 64, 2, 64) == hipSuccess);
  CHECK(hipMemsetD16(target + 128, 3, 32) == hipSuccess);
  CHECK(hipMemsetD32(target + 192, 4, 16) == hipSuccess);
  CHECK(hipStreamQuery(nullptr) == hipErrorNotReady);
  {
    // Bytes that the fills have not written yet can only be seen beside them.
    const unordered_on_purpose beside;
    CHECK(copied_in(reader, target, 256) == bytes_of(256, 0));
  }
  ahead.open();
  const std::vector<std::byte> host = copied_in(reader, target, 256);
  CHECK(filled(host.data(), 64, std::uint8_t{1}));
  CHECK(filled(host.data() + 64, 64, std::uint8_t{2}));
  CHECK(filled(host.data() + 128, 32, std::uint16_t{3}));
  CHECK(filled(host.data() + 192, 16, std::uint32_t{4}));
}

}  // namespace

TIDY_CASE("fill: arguments outside the rules are refused") {
  const mapped mapping{granule};
  const allocation device{64};
  const reservation unmapped{granule};
  std::vector<std::byte> pageable(64);
  check_refusals({
      {"null", hipMemset(nullptr, 0, 1)},
      {"pageable memory", hipMemset(pageable.data(), 0, 64)},
      {"unmapped reservation", hipMemset(unmapped.at(), 0, 64)},
      {"over the end of a mapping", hipMemset(mapping.at(), 0, granule + 1)},
      {"over the end of hipMalloc", hipMemset(device.at(), 0, 65)},
      {"over the end in elements", hipMemsetD16(device.at(), 0, 33)},
      {"more elements than addresses", hipMemsetD32(device.at(), 0, SIZE_MAX / 2)},
      {"two-byte elements at an odd address", hipMemsetD16(mapping.at(1), 0, 1)},
      {"four-byte elements at an uneven address", hipMemsetD32(mapping.at(2), 0, 1)},
  });
}

TIDY_CASE("fill: nothing is always filled") {
  CHECK(hipMemset(nullptr, 1, 0) == hipSuccess);
  CHECK(hipMemsetD32Async(nullptr, 1, 0, nullptr) == hipSuccess);
}

TIDY_CASE("fill: every function writes its element, count times, and nothing beyond") {
  constexpr std::size_t count = (std::size_t{1} << 20U) + 3;  // more than a slice of any width
  const mapped mapping{4 * granule};
  const stream work;
  const auto is = [&](std::size_t bytes, auto value) {
    CHECK(hipDeviceSynchronize() == hipSuccess);
    CHECK(filled(mapping.at(), count, value));
    CHECK(mapping.at()[bytes] == std::byte{0});
    REQUIRE(fill_and_wait(mapping.at(), 0, 4 * granule) == hipSuccess);
  };
  CHECK(hipMemset(mapping.at(), 0x1FF, count) == hipSuccess);
  is(count, std::uint8_t{0xFF});
  CHECK(hipMemsetAsync(mapping.at(), -2, count, work.get()) == hipSuccess);
  is(count, std::uint8_t{0xFE});
  CHECK(hipMemsetD8(mapping.at(), 0x81, count) == hipSuccess);
  is(count, std::uint8_t{0x81});
  CHECK(hipMemsetD8Async(mapping.at(), 0x82, count, work.get()) == hipSuccess);
  is(count, std::uint8_t{0x82});
  CHECK(hipMemsetD16(mapping.at(), 0x8123, count) == hipSuccess);
  is(2 * count, std::uint16_t{0x8123});
  CHECK(hipMemsetD16Async(mapping.at(), 0x8124, count, work.get()) == hipSuccess);
  is(2 * count, std::uint16_t{0x8124});
  CHECK(hipMemsetD32(mapping.at(), -559038737, count) == hipSuccess);
  is(4 * count, std::uint32_t{0xDEADBEEF});
  CHECK(hipMemsetD32Async(mapping.at(), 0x12345678, count, work.get()) == hipSuccess);
  is(4 * count, std::uint32_t{0x12345678});
}

TIDY_CASE("fill: mapped memory needs the right to write of the stream's device") {
  const mapped mapping{granule, {0}};
  const stream of_1{hipStreamNonBlocking, 1};
  CHECK(hipMemsetAsync(mapping.at(), 1, 64, of_1.get()) == hipErrorInvalidValue);
  mapping.give(1, hipMemAccessFlagsProtRead);
  CHECK(hipMemsetAsync(mapping.at(), 1, 64, of_1.get()) == hipErrorInvalidValue);
  mapping.give(1, hipMemAccessFlagsProtReadWrite);
  CHECK(hipMemsetAsync(mapping.at(), 1, 64, of_1.get()) == hipSuccess);
  mapping.give(0, hipMemAccessFlagsProtNone);
  CHECK(hipMemset(mapping.at(), 1, 64) == hipErrorInvalidValue);
  CHECK(of_1.wait() == hipSuccess);
}

TIDY_CASE("fill: hipMalloc memory of another device needs peer access") {
  const allocation of_1{64, 1};
  CHECK(hipMemset(of_1.at(), 1, 64) == hipErrorInvalidValue);
  REQUIRE(hipDeviceEnablePeerAccess(1, 0) == hipSuccess);
  CHECK(fill_and_wait(of_1.at(), 1, 64) == hipSuccess);
  REQUIRE(hipDeviceDisablePeerAccess(1) == hipSuccess);
  CHECK(hipMemset(of_1.at(), 1, 64) == hipErrorInvalidValue);
}

TIDY_CASE("fill: pinned memory is open to every device") {
  const pinned host{64};
  REQUIRE(hipSetDevice(2) == hipSuccess);
  CHECK(hipMemset(host.at(), 3, 64) == hipSuccess);
  CHECK(filled(host.at(), 64, std::uint8_t{3}));
}

TIDY_CASE("fill: device memory is not filled until the null stream has come to it") {
  const allocation device{4096};
  check_fills_in_turn(device.at());
}

TIDY_CASE("fill: mapped memory is not filled until the null stream has come to it") {
  const mapped mapping{granule};
  check_fills_in_turn(mapping.at());
}

TIDY_CASE("fill: memory that the host shares is filled when the call returns") {
  const pinned host{64};
  const managed unified{64};
  std::vector<std::byte> own(64);
  REQUIRE(hipHostRegister(own.data(), own.size(), hipHostRegisterDefault) == hipSuccess);
  {
    // Were it submitted only, it would wait for the hold to end.
    const held_streams held;
    for (std::byte* const target : {host.at(), unified.at(), own.data()}) {
      CHECK(hipMemset(target, 5, 64) == hipSuccess);
      CHECK(filled(target, 64, std::uint8_t{5}));
    }
  }
  CHECK(hipHostUnregister(own.data()) == hipSuccess);
}
