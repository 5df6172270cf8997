// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device_allocation.hpp>

#include <hipvmm/runtime/stream.hpp>
#include "support/device_bytes.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("device_allocation: holds bytes of its device") {
  const stream stream;
  const device_allocation memory{first_device, 1000};
  CHECK(memory.bytes() == 1000);
  CHECK(memory.device() == first_device);
  fill_async(stream, memory.get(), 0x5a, memory.bytes());
  CHECK(read_bytes(stream, memory.get(), memory.bytes()) == byte_vector(1000, 0x5a));
}

TEST_CASE("device_allocation: of no bytes is refused with the device's number") {
  CHECK_THROWS_WITH_AS((device_allocation{first_device, 0}),
                       doctest::Contains("0 bytes on device 0"), std::invalid_argument);
}

TEST_CASE("device_allocation: on a device that does not exist is refused") {
  CHECK_THROWS_AS((device_allocation{device_ref{device_count()}, 1}), std::invalid_argument);
}

TEST_CASE("device_allocation: more than the device has tells what was asked and what is free") {
  const std::size_t bytes = first_device.total_memory() + GiB;
  const auto error = thrown_by<out_of_memory>([&] {
    const device_allocation memory{first_device, bytes};
  });
  CHECK(error.resource() == exhausted::device_memory);
  CHECK(error.device() == 0);
  CHECK(error.bytes_requested() == bytes);
  CHECK(error.bytes_free() <= first_device.total_memory());
}

TEST_CASE("device_ref: peer access may be enabled twice, and for the device itself") {
  first_device.enable_peer_access(first_device);
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "peer");
  peer.enable_peer_access(first_device);
  peer.enable_peer_access(first_device);
  const stream stream{peer};
  const device_allocation memory{first_device, 64};
  fill_async(stream, memory.get(), 7, memory.bytes());
  CHECK(read_bytes(stream, memory.get(), memory.bytes()) == byte_vector(64, 7));
}

TEST_CASE("device_ref: peer access to a device that cannot be reached is a hip_error") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that reaches no other");
  CHECK_THROWS_AS(stranger.enable_peer_access(first_device), hip_error);
}

}  // namespace
}  // namespace hipvmm::test
