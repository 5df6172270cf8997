// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/managed_memory.hpp>

#include <hipvmm/runtime/device_allocation.hpp>
#include "support/test.hpp"

namespace hipvmm {
namespace {

constexpr device_ref device{0};
constexpr std::size_t bytes = 128 * KiB;

class managed_block {
 public:
  managed_block() { REQUIRE(hipMallocManaged(&start_, bytes, hipMemAttachGlobal) == hipSuccess); }
  ~managed_block() { CHECK(hipFree(start_) == hipSuccess); }
  managed_block& operator=(managed_block&&) = delete;
  [[nodiscard]] void* get() const { return start_; }
  [[nodiscard]] char* half() const { return static_cast<char*>(start_) + bytes / 2; }

 private:
  void* start_ = nullptr;
};

bool is_missing() {
  if (device.supports_managed_memory() && device.supports_concurrent_managed_access()) return false;
  MESSAGE("skipped: managed memory does not move here");
  return true;
}

bool names(const std::vector<memory_location>& places, memory_location wanted) {
  return std::find(places.begin(), places.end(), wanted) != places.end();
}

}  // namespace

TEST_CASE("memory_location: is a device or the host") {
  const memory_location host = memory_location::host();
  const memory_location first = device;
  CHECK(host.is_host());
  CHECK_FALSE(host.device().has_value());
  CHECK_FALSE(first.is_host());
  CHECK(first.device() == device);
  CHECK(first != host);
  CHECK(first != device_ref{1});
}

TEST_CASE("prefetch_async: the range tells where it was last to be moved") {
  if (is_missing()) return;
  const stream used{device};
  const managed_block memory;
  CHECK(last_prefetch_location(memory.get(), bytes) == std::nullopt);
  prefetch_async(used, memory.get(), bytes, device);
  CHECK(last_prefetch_location(memory.get(), bytes) == device);
  prefetch_async(used, memory.half(), bytes / 2, memory_location::host());
  CHECK(last_prefetch_location(memory.half(), bytes / 2) == memory_location::host());
  CHECK(last_prefetch_location(memory.get(), bytes) == std::nullopt);
  prefetch_async(used, nullptr, 0, device);  // nothing
  used.synchronize();
}

TEST_CASE("advise: what was advised is told, attribute by attribute and all at once") {
  if (is_missing()) return;
  const managed_block memory;
  void* const at = memory.get();
  CHECK_FALSE(is_read_mostly(at, bytes));
  CHECK(preferred_location(at, bytes) == std::nullopt);
  advise(at, bytes, range_advice::set_read_mostly);
  advise(at, bytes, location_advice::set_preferred_location, memory_location::host());
  advise(at, bytes, location_advice::set_accessed_by, device);
  CHECK(is_read_mostly(at, bytes));
  CHECK(preferred_location(at, bytes) == memory_location::host());
  CHECK(names(accessed_by(at, bytes), device));

  const range_attributes all = attributes_of_range(at, bytes);
  CHECK(all.read_mostly);
  CHECK(all.preferred_location == memory_location::host());
  CHECK(all.last_prefetch_location == std::nullopt);
  CHECK(all.accessed_by == accessed_by(at, bytes));

  advise(at, bytes, range_advice::unset_read_mostly);
  advise(at, bytes, range_advice::unset_preferred_location);
  advise(at, bytes, location_advice::unset_accessed_by, device);
  const range_attributes none = attributes_of_range(at, bytes);
  CHECK_FALSE(none.read_mostly);
  CHECK(none.preferred_location == std::nullopt);
  CHECK_FALSE(names(none.accessed_by, device));
}

TEST_CASE("coherency_of: tells what was advised, on AMD") {
  if (is_missing()) return;
  const managed_block memory;
  if (HIPVMM_TEST_ON_CUDA != 0) {
    CHECK_THROWS_WITH_AS(static_cast<void>(coherency_of(memory.get(), bytes)),
                         doctest::Contains("AMD's memory alone"), unsupported);
    CHECK_THROWS_AS(advise(memory.get(), bytes, range_advice::set_coarse_grain), unsupported);
    return;
  }
  CHECK(coherency_of(memory.get(), bytes) == memory_coherency::fine_grained);
  advise(memory.half(), bytes / 2, range_advice::set_coarse_grain);
  CHECK(coherency_of(memory.half(), bytes / 2) == memory_coherency::coarse_grained);
  CHECK(coherency_of(memory.get(), bytes) == memory_coherency::mixed);
  advise(memory.get(), bytes, range_advice::unset_coarse_grain);
  CHECK(coherency_of(memory.get(), bytes) == memory_coherency::fine_grained);
}

TEST_CASE("attach_async: takes a whole allocation, and single for a stream of its own only") {
  if (is_missing()) return;
  const stream used{device};
  const managed_block memory;
  for (const attachment to : {attachment::single, attachment::host, attachment::global})
    CHECK_NOTHROW(attach_async(used, memory.get(), to));
  CHECK_THROWS_WITH_AS(attach_async(stream_ref::legacy_default(), memory.get(), attachment::single),
                       doctest::Contains("legacy default stream"), std::invalid_argument);
  used.synchronize();
}

TEST_CASE("attach_async: memory of malloc, in its size, where the device reaches it") {
  if (is_missing()) return;
  const stream used{device};
  std::vector<char> memory(bytes);
  if (device.supports_pageable_access()) {
    for (const attachment to : {attachment::single, attachment::host, attachment::global})
      CHECK_NOTHROW(attach_async(used, memory.data(), bytes, to));
  } else {
    CHECK_THROWS_WITH_AS(attach_async(used, memory.data(), bytes, attachment::global),
                         doctest::Contains("128.00 KiB"), std::invalid_argument);
  }
  CHECK_THROWS_AS(attach_async(used, memory.data(), attachment::global), std::invalid_argument);
  CHECK_THROWS_WITH_AS(attach_async(used, memory.data(), 0, attachment::global),
                       doctest::Contains("0 bytes"), std::invalid_argument);
  const managed_block managed;
  CHECK_NOTHROW(attach_async(used, managed.get(), bytes, attachment::global));
  CHECK_THROWS_AS(attach_async(used, managed.get(), bytes / 2, attachment::global),
                  std::invalid_argument);
  used.synchronize();
}

TEST_CASE("managed memory: ranges and devices that are none are refused by name") {
  if (is_missing()) return;
  const stream used{device};
  const managed_block memory;
  const device_allocation plain{device, bytes};
  const auto says_managed = doctest::Contains("does not lie in one allocation of managed memory");
  CHECK_THROWS_WITH_AS(advise(plain.get(), bytes, range_advice::set_read_mostly), says_managed,
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(advise(memory.get(), 2 * bytes, range_advice::set_read_mostly), says_managed,
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(attributes_of_range(plain.get(), bytes)), says_managed,
                       std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(is_read_mostly(memory.get(), 0)), std::invalid_argument);
  CHECK_THROWS_AS(attach_async(used, plain.get(), attachment::global), std::invalid_argument);
  CHECK_THROWS_WITH_AS(prefetch_async(used, memory.get(), bytes, device_ref{99}),
                       doctest::Contains("device 99 does not exist"), std::invalid_argument);
}

}  // namespace hipvmm
