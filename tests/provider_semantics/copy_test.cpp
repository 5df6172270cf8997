// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

TEST_CASE("copy: its arguments") {
  const allocation device{4096};
  std::array<std::byte, 64> host{};
  const auto copy = [&](void* to, const void* from, int kind, std::size_t bytes = 64) {
    return hipMemcpy(to, from, bytes, no_such<hipMemcpyKind>(kind));
  };
  check_rules({
      {"to the device", [&] { return copy(device.get(), host.data(), hipMemcpyHostToDevice); },
       hipSuccess},
      {"from the device", [&] { return copy(host.data(), device.get(), hipMemcpyDeviceToHost); },
       hipSuccess},
      {"by the addresses", [&] { return copy(host.data(), device.get(), hipMemcpyDefault); },
       hipSuccess},
      {"on the device, without compute units",
       [&] {
         return copy(device.get(), device.get() + 64, hipvmm::hip_compat::device_to_device_no_cu);
       },
       hipSuccess},
      {"no bytes", [&] { return copy(nullptr, nullptr, hipMemcpyDefault, 0); }, hipSuccess},
      {"to null", [&] { return copy(nullptr, host.data(), hipMemcpyHostToDevice); }},
      {"from null", [&] { return copy(device.get(), nullptr, hipMemcpyDefault); }},
      {"no such kind", [&] { return copy(device.get(), host.data(), 77); },
       hipErrorInvalidMemcpyDirection},
      {"host to host by name of the device",
       [&] { return copy(host.data(), host.data() + 32, hipMemcpyHostToDevice, 16); }},
      {"device to host by name of the device",
       [&] { return copy(host.data(), device.get(), hipMemcpyDeviceToDevice); }},
      {"past the end", [&] { return copy(device.get(), device.get() + 2048, 3, 4096 << 10); }},
  });
}

TEST_CASE("copy: to and from reserved addresses is refused") {
  const addresses nothing{1};
  std::array<std::byte, 64> host{};
  check_rules({
      {"to", [&] { return hipMemcpy(nothing.at(0), host.data(), 64, hipMemcpyHostToDevice); }},
      {"from", [&] { return hipMemcpy(host.data(), nothing.at(0), 64, hipMemcpyDeviceToHost); }},
      {"fill", [&] { return hipMemset(nothing.at(0), 1, 64); }},
  });
}

TEST_CASE("copy: crosses neighbouring mappings") {
  mapped two{2};
  two.open();
  std::array<std::byte, 64> sent{};
  sent.fill(std::byte{0x77});
  REQUIRE(hipMemcpy(two.at(0, granule() - 32), sent.data(), 64, hipMemcpyDefault) == hipSuccess);
  CHECK(byte_at(two.at(1, 31)) == 0x77);
}

TEST_CASE("copy: past the last mapping is refused") {
  mapped one{1, 1};
  one.open();
  std::array<std::byte, 64> sent{};
  check_rules({
      {"copy",
       [&] {
         return hipMemcpy(one.at(0, granule() - 32), sent.data(), 64, hipMemcpyHostToDevice);
       }},
      {"fill", [&] { return hipMemset(one.at(0, granule() - 32), 1, 64); }},
  });
}

TEST_CASE("copy: pageable memory has been read when the call returns") {
  const allocation device{1 << 20};
  std::vector<unsigned char> host(1 << 20, 0x11);
  const own_stream stream;
  REQUIRE(hipMemcpyAsync(device.get(), host.data(), host.size(), hipMemcpyHostToDevice,
                         stream.get()) == hipSuccess);
  host.assign(host.size(), 0x22);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(device.get()) == 0x11);
  CHECK(byte_at(device.get() + (1 << 20) - 1) == 0x11);
}

TEST_CASE("fill: its arguments") {
  const allocation device{4096};
  std::array<std::byte, 64> host{};
  check_rules({
      {"bytes", [&] { return hipMemset(device.get() + 1, 7, 100); }, hipSuccess},
      {"two bytes each", [&] { return hipMemsetD16(device.get(), 7, 100); }, hipSuccess},
      {"four bytes each", [&] { return hipMemsetD32(device.get(), 7, 100); }, hipSuccess},
      {"nothing", [] { return hipMemset(nullptr, 7, 0); }, hipSuccess},
      {"null", [] { return hipMemset(nullptr, 7, 100); }},
      {"two bytes, off by one", [&] { return hipMemsetD16(device.get() + 1, 7, 100); }},
      {"four bytes, off by two", [&] { return hipMemsetD32(device.get() + 2, 7, 100); }},
      {"pageable memory", [&] { return hipMemset(host.data(), 7, 64); }},
      {"past the end", [&] { return hipMemset(device.get(), 7, 4096 << 10); }},
  });
}
