// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

// 64 MiB in one chunk.
struct large_vector {
  hipvmm::stream stream;
  growable_device_vector<element8> vector;

  large_vector() {
    vector.reserve(64 * MiB / sizeof(element8));
    vector.append(series<element8>(0, 1000), stream);
  }
};

TEST_CASE_FIXTURE(large_vector, "growable_device_vector: shrink_to_fit keeps data and elements" *
                                    needs_virtual_memory) {
  const element8* const data = vector.data();
  const std::size_t max_size = vector.max_size();
  vector.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(vector.data() == data);
  CHECK(vector.max_size() == max_size);
  CHECK(vector.copy_to_host(stream) == series<element8>(0, 1000));
}

TEST_CASE_FIXTURE(large_vector,
                  "growable_device_vector: shrink_to_fit gives whole chunks behind the size back" *
                      needs_virtual_memory) {
  const std::size_t first_chunk = vector.capacity();
  vector.reserve(2 * first_chunk);
  vector.shrink_to_fit(stream);
  CHECK(vector.capacity() == first_chunk);
}

TEST_CASE_FIXTURE(large_vector,
                  "growable_device_vector: shrink_to_fit that replaces lowers capacity to size") {
  vector.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(vector.capacity() >= 1000);
  CHECK(vector.capacity() * sizeof(element8) ==
        std::max(2 * MiB, capability_of(first_device).recommended_granularity()));
}

TEST_CASE_FIXTURE(large_vector,
                  "growable_device_vector: shrink_to_fit of an empty one backs nothing") {
  vector.clear();
  vector.shrink_to_fit(stream);
  CHECK(vector.capacity() == 0);
  CHECK(vector.statistics().chunks == 0);
}

TEST_CASE_FIXTURE(large_vector,
                  "growable_device_vector: shrink_to_fit of a fitting one changes nothing") {
  vector.resize_uninitialized(vector.capacity());
  const std::size_t chunks = vector.statistics().chunks;
  vector.shrink_to_fit(stream);
  CHECK(vector.capacity() == vector.size());
  CHECK(vector.statistics().chunks == chunks);
}

TEST_CASE_FIXTURE(large_vector, "growable_device_vector: one that shrank grows again in place" *
                                    needs_virtual_memory) {
  const element8* const data = vector.data();
  vector.shrink_to_fit(stream, tail_chunk::replace);
  vector.append(series<element8>(1000, 1'000'000), stream);
  CHECK(vector.data() == data);
  CHECK(vector.copy_to_host(stream) == series<element8>(0, 1'001'000));
}

TEST_CASE("growable_device_vector: shrink_to_fit works with an element across the end of a chunk") {
  const stream stream;
  growable_device_vector<element<24>> odd;
  const std::size_t count = 2 * MiB / 24 + 1;
  odd.append(series<element<24>>(0, count), stream);
  odd.reserve(10 * count);
  odd.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(odd.capacity() >= count);
  CHECK(odd.copy_to_host(stream) == series<element<24>>(0, count));
}

TEST_CASE("growable_device_vector: shrink_to_fit of a full one of no whole number of steps") {
  const stream stream;
  vector_of_8 full{first_device, {.max_bytes = 8 * granule(), .granule_bytes = 3 * granule()}};
  full.resize_uninitialized(full.max_size());
  CHECK(full.capacity() == full.max_size());
  CHECK_NOTHROW(full.shrink_to_fit(stream));
  CHECK(full.capacity() == full.max_size());
}

TEST_CASE("growable_device_vector: shrink_to_fit of one that was moved from does nothing") {
  const stream stream;
  vector_of_8 source;
  const vector_of_8 taken = std::move(source);
  CHECK_NOTHROW(source.shrink_to_fit(stream));
}

}  // namespace
}  // namespace hipvmm::test
