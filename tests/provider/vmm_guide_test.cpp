// SPDX-License-Identifier: MIT
// The calls of "Virtual memory management", AMD's guide to HIP, in its order. The printed code uses
// enumerators such as HIP_MEM_ALLOCATION_TYPE_PINNED, which no release has, and checks no result.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t wanted_bytes = 3'000'000;

hipMemAllocationProp printed_properties() {
  hipMemAllocationProp properties = {};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  REQUIRE(hipGetDevice(&properties.location.id) == hipSuccess);
  return properties;
}

std::size_t padded(std::size_t bytes, const hipMemAllocationProp& properties) {
  std::size_t unit = 0;
  REQUIRE(hipMemGetAllocationGranularity(&unit, &properties, hipMemAllocationGranularityMinimum) ==
          hipSuccess);
  REQUIRE(unit > 0);
  return (bytes + unit - 1) / unit * unit;
}

// What the guide calls an allocation: memory, addresses, the one at the other, open to a device.
struct guide_allocation {
  explicit guide_allocation(void* wish = nullptr) {
    const hipMemAllocationProp properties = printed_properties();
    bytes = padded(wanted_bytes, properties);
    REQUIRE(hipMemCreate(&handle, bytes, &properties, 0) == hipSuccess);
    REQUIRE(hipMemAddressReserve(&start, bytes, 0, wish, 0) == hipSuccess);
    REQUIRE(hipMemMap(start, bytes, 0, handle, 0) == hipSuccess);
    open_to(properties.location.id);
  }
  guide_allocation(const guide_allocation&) = delete;
  guide_allocation& operator=(const guide_allocation&) = delete;
  ~guide_allocation() {
    CHECK(hipMemUnmap(start, bytes) == hipSuccess);
    CHECK(hipMemRelease(handle) == hipSuccess);
    CHECK(hipMemAddressFree(start, bytes) == hipSuccess);
  }

  void open_to(int device) const {
    hipMemAccessDesc access = {};
    access.location.type = hipMemLocationTypeDevice;
    access.location.id = device;
    access.flags = hipMemAccessFlagsProtReadWrite;
    REQUIRE(hipMemSetAccess(start, bytes, &access, 1) == hipSuccess);
  }
  [[nodiscard]] std::byte* end() const { return static_cast<std::byte*>(start) + bytes; }

  hipMemGenericAllocationHandle_t handle = nullptr;
  void* start = nullptr;
  std::size_t bytes = 0;
};

}  // namespace

TEST_CASE("vmm guide: memory of a size that is no multiple of the granularity is refused") {
  const nothing_left check;
  const hipMemAllocationProp properties = printed_properties();
  REQUIRE(padded(wanted_bytes, properties) != wanted_bytes);
  hipMemGenericAllocationHandle_t handle = nullptr;
  CHECK(hipMemCreate(&handle, wanted_bytes, &properties, 0) == hipErrorInvalidValue);
}

TEST_CASE("vmm guide: what was created, mapped and opened holds data") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const guide_allocation memory;
  const std::vector<std::byte> sent = counted_bytes(memory.bytes);
  std::vector<std::byte> back(memory.bytes);
  CHECK(hipMemcpy(memory.start, sent.data(), memory.bytes, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(hipMemcpy(back.data(), memory.start, memory.bytes, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(back == sent);
}

TEST_CASE("vmm guide: before access is set the device may not touch the memory") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const hipMemAllocationProp properties = printed_properties();
  const memory chunk{granule, properties.location.id};
  const reservation addresses{granule};
  REQUIRE(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
  CHECK(hipMemset(addresses.at(), 1, granule) == hipErrorInvalidValue);
  CHECK(hipMemUnmap(addresses.at(), granule) == hipSuccess);
}

TEST_CASE("vmm guide: a peer is let in by access to these bytes, not by peer access") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const guide_allocation memory;
  const stream of_peer{hipStreamNonBlocking, 1};
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipDeviceEnablePeerAccess(0, 0) == hipSuccess);
  CHECK(hipMemsetAsync(memory.start, 1, memory.bytes, of_peer.get()) == hipErrorInvalidValue);
  REQUIRE(hipDeviceDisablePeerAccess(0) == hipSuccess);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  memory.open_to(1);
  CHECK(hipMemsetAsync(memory.start, 1, memory.bytes, of_peer.get()) == hipSuccess);
  CHECK(of_peer.wait() == hipSuccess);
}

// Wrong as printed: the memory is padded_size bytes long and is unmapped and freed with size.
TEST_CASE("vmm guide: unmapping takes the padded size") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(one_unmap_each);
  const nothing_left check;
  const guide_allocation memory;
  CHECK(hipMemUnmap(memory.start, wanted_bytes) == hipErrorInvalidValue);
}

TEST_CASE("vmm guide: freeing takes the padded size") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(free_ignores_size);
  const nothing_left check;
  const reservation addresses{padded(wanted_bytes, printed_properties())};
  CHECK(hipMemAddressFree(addresses.at(), wanted_bytes) == hipErrorInvalidValue);
}

TEST_CASE("vmm guide: addresses with memory at them cannot be freed") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(mapped_addresses_are_lost);
  const nothing_left check;
  const guide_allocation memory;
  CHECK(hipMemAddressFree(memory.start, memory.bytes) ==
        under(quirks::mapped_addresses_are_unknown, hipErrorUnknown, hipErrorInvalidValue));
}

TEST_CASE("vmm guide: unmapping and freeing do not wait for a stream") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  HIPVMM_SKIP_UNDER(unmap_waits);
  const nothing_left check;
  const stream busy;
  const allocation unrelated{64};
  const held_streams held;
  REQUIRE(hipMemsetAsync(unrelated.at(), 1, 64, busy.get()) == hipSuccess);
  { const guide_allocation memory; }
  CHECK(hipStreamQuery(busy.get()) == hipErrorNotReady);
}

TEST_CASE("vmm guide: an allocation grows at its end, where the addresses are free") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const std::size_t bytes = padded(wanted_bytes, printed_properties());
  const std::vector<std::byte> sent = bytes_of(bytes, 1);
  std::vector<std::byte> back(2 * bytes);
  // Addresses for both that are certainly free. While they are, nothing here may take memory or
  // start a thread, whose stack might be put there; where the host may not touch mapped memory,
  // mapping takes addresses too. So the second half is held until it is wanted.
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, 2 * bytes, 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemAddressFree(start, 2 * bytes) == hipSuccess);
  void* end = nullptr;
  REQUIRE(hipMemAddressReserve(&end, bytes, 0, static_cast<std::byte*>(start) + bytes, 0) ==
          hipSuccess);
  const guide_allocation first{start};
  REQUIRE(first.start == start);
  REQUIRE(first.end() == end);
  REQUIRE(hipMemcpy(first.start, sent.data(), bytes, hipMemcpyHostToDevice) == hipSuccess);
  REQUIRE(hipMemAddressFree(end, bytes) == hipSuccess);
  const guide_allocation second{first.end()};
  REQUIRE(second.start == first.end());
  CHECK(hipMemset(second.start, 2, bytes) == hipSuccess);
  CHECK(hipMemcpy(back.data(), first.start, 2 * bytes, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(equal(back.data(), sent));
  CHECK(equal(back.data() + bytes, bytes_of(bytes, 2)));
}

TEST_CASE("vmm guide: a wish for addresses that are taken gives others, with success") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const nothing_left check;
  const guide_allocation first;
  const reservation taken{first.bytes};
  const guide_allocation second{taken.at()};
  CHECK(second.start != taken.at());
}
