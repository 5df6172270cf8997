// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/physical_chunk.hpp>

#include "support/test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

TEST_CASE("granularity_of: the minimum is a power of two that divides the recommended") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const allocation_granularity unit = granularity_of(device_ref{ordinal});
    CHECK(is_power_of_two(unit.minimum));
    CHECK(unit.recommended % unit.minimum == 0);
    CHECK(unit.recommended >= unit.minimum);
  }
}

TEST_CASE("physical_chunk: a default one is empty") {
  const physical_chunk chunk;
  CHECK(chunk.empty());
  CHECK(chunk.get() == nullptr);
  CHECK(chunk.bytes() == 0);
}

TEST_CASE("physical_chunk: knows its device, bytes and handle type") {
  const physical_chunk chunk{first_device, 3 * granule(), handle_type::posix_fd};
  CHECK(chunk.device() == first_device);
  CHECK(chunk.bytes() == 3 * granule());
  CHECK(chunk.shareable() == handle_type::posix_fd);
  CHECK_FALSE(chunk.shared());
}

TEST_CASE("physical_chunk: can be made on every device, and the current one stays current") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref device{ordinal};
    CHECK(physical_chunk{device, granularity_of(device).minimum}.device() == device);
    CHECK(device_ref::current() == first_device);
  }
}

TEST_CASE("physical_chunk: later ones have larger creation indices") {
  const physical_chunk first{first_device, granule()};
  const physical_chunk second{first_device, granule()};
  CHECK(first.creation_index() > 0);
  CHECK(second.creation_index() > first.creation_index());
}

TEST_CASE("physical_chunk: bytes that are zero or no multiple of the granularity throw") {
  CHECK_THROWS_AS((physical_chunk{first_device, 0}), std::invalid_argument);
  CHECK_THROWS_AS((physical_chunk{first_device, 1}), std::invalid_argument);
  CHECK_THROWS_WITH_AS((physical_chunk{first_device, granule() + 1}),
                       doctest::Contains(std::to_string(granule() + 1).c_str()),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((physical_chunk{first_device, granule() + 1}),
                       doctest::Contains(std::to_string(granule()).c_str()), std::invalid_argument);
}

TEST_CASE("granularity_of, physical_chunk: an unknown device throws invalid_argument") {
  CHECK_THROWS_AS(static_cast<void>(granularity_of(device_ref{-1})), std::invalid_argument);
  CHECK_THROWS_AS((physical_chunk{device_ref{device_count()}, granule()}), std::invalid_argument);
}

TEST_CASE("physical_chunk: more than the device has throws out_of_memory with the figures") {
  const std::size_t asked = align_up(first_device.total_memory(), granule()) + granule();
  const auto error = thrown_by<out_of_memory>([&] {
    const physical_chunk chunk{first_device, asked};
  });
  CHECK(error.resource() == exhausted::device_memory);
  CHECK(error.device() == first_device.ordinal());
  CHECK(error.bytes_requested() == asked);
  CHECK(error.bytes_free() <= first_device.total_memory());
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
