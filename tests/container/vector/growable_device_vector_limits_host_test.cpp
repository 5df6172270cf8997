// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/address_reservation.hpp>
#include "container/container_test.hpp"
#include "runtime/peer_copies.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

/// Leaves `granules` of 2 MiB free on the first device while it lives.
physical_chunk leave_free(std::size_t granules) {
  return physical_chunk{first_device, free_memory_at_rest(first_device) - granules * 2 * MiB};
}

TEST_CASE("growable_device_vector: a full device throws out_of_memory with all figures" *
          needs_virtual_memory) {
  vector_of_granules vector;
  vector.resize_uninitialized(5);
  const physical_chunk rest = leave_free(10);
  const hipvmm_host_counters before = live_objects();
  const auto error = thrown_by<out_of_memory>([&] { vector.reserve(20); });
  CHECK(error.resource() == exhausted::device_memory);
  CHECK(error.device() == 0);
  CHECK(error.bytes_requested() == 15 * 2 * MiB);
  CHECK(error.bytes_free() == 10 * 2 * MiB);
  CHECK(std::string{error.what()}.find("30.00 MiB") != std::string::npos);
  CHECK(std::string{error.what()}.find("20.00 MiB") != std::string::npos);
  CHECK(std::string{error.what()}.find("10.00 MiB") != std::string::npos);
  CHECK(live_objects() == before);
  CHECK(vector.size() == 5);
  CHECK(vector.capacity() == 5);
}

TEST_CASE("growable_device_vector: what was asked for fits where the slack does not" *
          needs_virtual_memory) {
  vector_of_granules vector;
  vector.resize_uninitialized(80);
  // A step from 80 granules adds 10.
  const physical_chunk rest = leave_free(3);
  vector.resize_uninitialized(81);
  CHECK(vector.size() == 81);
  CHECK(vector.capacity() == 81);
  vector.resize_uninitialized(83);
  CHECK(vector.capacity() == 83);
  CHECK_THROWS_AS(vector.resize_uninitialized(84), out_of_memory);
  CHECK(vector.size() == 83);
}

TEST_CASE("growable_device_vector: can hold all memory that is free on the device" *
          needs_virtual_memory) {
  vector_of_granules vector;
  const std::size_t count = free_memory_at_rest(first_device) / (2 * MiB);
  for (std::size_t size = 1; size <= count; ++size) vector.resize_uninitialized(size);
  CHECK(vector.capacity() == count);
  // Releases that a sweep let fail may have left a smaller chunk.
  CHECK(first_device.free_memory() < 2 * MiB);
  CHECK_THROWS_AS(vector.resize_uninitialized(count + 1), out_of_memory);
  CHECK(vector.size() == count);
}

TEST_CASE("growable_device_vector: more than the device has throws and moves nothing") {
  vector_of_granules vector;
  vector.resize_uninitialized(5);
  const auto* const data = vector.data();
  const std::size_t max_size = vector.max_size();
  CHECK_THROWS_AS(vector.reserve(2 * GiB / sizeof(granule_element)), out_of_memory);
  CHECK(vector.data() == data);
  CHECK(vector.max_size() == max_size);
  CHECK(vector.statistics().base_moves == 0);
}

TEST_CASE("growable_device_vector: memory that others release can be had after a failure") {
  vector_of_granules vector;
  vector.resize_uninitialized(5);
  {
    const physical_chunk rest = leave_free(0);
    CHECK_THROWS_AS(vector.resize_uninitialized(6), out_of_memory);
  }
  vector.resize_uninitialized(6);
  CHECK(vector.size() == 6);
}

TEST_CASE("growable_device_vector: shrink_to_fit gives physical memory back" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(memory_kept);
  const stream stream;
  const std::size_t before = hipvmm_host_device_bytes(0);
  vector_of_granules vector;
  vector.resize_uninitialized(100);
  vector.resize_uninitialized(7);
  vector.shrink_to_fit(stream, tail_chunk::replace);
  chunk_cache::shared().trim();
  CHECK(hipvmm_host_device_bytes(0) == before + 7 * 2 * MiB);
}

TEST_CASE("growable_device_vector: destruction gives all memory and addresses back") {
  const hipvmm_host_counters before = live_objects();
  {
    vector_of_granules vector;
    for (std::size_t size = 1; size < 100; ++size) vector.resize_uninitialized(size);
  }
  release_idle_memory();
  CHECK(live_objects() == before);
}

TEST_CASE("growable_device_vector: the second that grows alike creates no chunk" *
          needs_virtual_memory) {
  const shared_cache_keeps keeps;
  const auto double_up = [] {
    vector_of_granules vector;
    for (std::size_t size = 1; size <= 32; size *= 2) vector.resize_uninitialized(size);
  };
  double_up();
  drain_retired_memory();
  const call_counter creates{"hipMemCreate"};
  double_up();
  CHECK(creates.count() == 0);
}

TEST_CASE("growable_device_vector: gets what the shared cache keeps when the device is full" *
          needs_virtual_memory) {
  const shared_cache_keeps keeps;
  {
    vector_of_granules vector;
    vector.reserve(30);
  }
  drain_retired_memory();
  vector_of_granules vector;
  vector.reserve(3);
  CHECK(chunk_cache::shared().statistics().bytes == 30 * 2 * MiB);
  const physical_chunk rest = leave_free(10);
  vector.reserve(3 + 35);
  CHECK(vector.capacity() >= 38);
  CHECK(chunk_cache::shared().statistics().bytes == 0);
}

TEST_CASE("growable_device_vector: chunks come from and return to the cache it was given" *
          needs_virtual_memory) {
  chunk_cache cache{GiB};
  const growth_options options{.chunks = {.cache = &cache}};
  {
    vector_of_granules vector{first_device, options};
    vector.resize_uninitialized(10);
  }
  drain_retired_memory();
  CHECK(cache.statistics().bytes == 10 * 2 * MiB);
  const call_counter creations{"hipMemCreate"};
  vector_of_granules again{first_device, options};
  again.resize_uninitialized(10);
  CHECK(creations.count() == 0);
}

TEST_CASE("growable_device_vector: an append from a device that gave no right changes nothing" *
          needs_virtual_memory) {
  const stream stream;
  for (const int ordinal : {1, 2}) {
    CAPTURE(ordinal);
    growable_device_vector<element<8>> source{device_ref{ordinal}};
    source.resize_uninitialized(10);
    growable_device_vector<element<8>> target;
    target.append(series<element<8>>(0, 10), stream);
    // If the peer's engine would copy, the peer has no right to
    // the target either.
    const bool lacks_link =
        detail::copies_need_links() && !first_device.can_access_peer(device_ref{ordinal});
    bool is_copied = false;
    try {
      target.append_from_device(source.span(), stream);
      is_copied = true;
    } catch (const unsupported&) {
      CHECK((lacks_link || !capability_of(first_device).has(trait::peer_copies)));
    } catch (const hip_error&) {
      CHECK(capability_of(first_device).has(trait::peer_copies));
    }
    CHECK(is_copied == (quirks::copies_need_no_right.holds() && !lacks_link));
    CHECK(target.size() == (is_copied ? 20 : 10));
    target.resize(10, stream);
    CHECK(target.copy_to_host(stream) == series<element<8>>(0, 10));
  }
}

HIPVMM_TEST_CASE_IN(
    "growable_device_vector: where addresses are scarce, smaller maxima are reserved" *
        needs_virtual_memory,
    {"HIPVMM_HOST_ADDRESS_SPACE=510MiB"}) {
  std::vector<vector_of_granules> vectors(8);
  for (vector_of_granules& vector : vectors) {
    CHECK(vector.max_size() >= 1);
    vector.resize_uninitialized(vector.max_size());
  }
  CHECK(vectors.front().max_size() > vectors.back().max_size());
}

TEST_CASE(
    "growable_device_vector: a maximum that cannot be reserved is refused, and leaves nothing" *
    needs_virtual_memory) {
  const hipvmm_host_counters before = live_objects();
  for (const past_max_size past : {past_max_size::move, past_max_size::refuse}) {
    for (const std::size_t bytes : {std::size_t{1} << 47, std::size_t{1} << 60}) {
      const growth_options options{.max_bytes = bytes, .past_max = past};
      const auto failure = thrown_by<out_of_memory>([&] {
        const vector_of_granules vector{first_device, options};
      });
      CHECK(failure.resource() == exhausted::addresses);
      CHECK(failure.bytes_requested() == bytes);
      CHECK(std::string{failure.what()}.find("max_bytes") != std::string::npos);
    }
  }
  drain_retired_memory();
  CHECK(live_objects() == before);
}

HIPVMM_TEST_CASE_IN(
    "growable_device_vector: where twice the maximum is refused what is needed is reserved" *
        needs_virtual_memory,
    {"HIPVMM_HOST_ADDRESS_SPACE=80MiB", "HIPVMM_HOST_GRANULARITY=2MiB"}) {
  vector_of_granules vector{first_device, {.max_bytes = 16 * 2 * MiB}};
  REQUIRE(vector.max_size() == 16);
  vector.reserve(1);
  // Of 80 MiB 46 are left, in one piece or not: twice the maximum are 64.
  const address_reservation behind{2 * MiB, 0, vector.data() + vector.max_size()};
  vector.reserve(17);
  CHECK(vector.max_size() >= 17);
  CHECK(vector.max_size() < 32);
  CHECK(vector.capacity() >= 17);
}

}  // namespace
}  // namespace hipvmm::test
