// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "runtime/peer_copies.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("growable_device_vector: construction backs nothing" * needs_virtual_memory) {
  const std::size_t before = hipvmm_host_device_bytes(0);
  const hipvmm_host_counters live = live_objects();
  const vector_of_8 vector;
  CHECK(hipvmm_host_device_bytes(0) == before);
  CHECK(live_objects().handles == live.handles);
  CHECK(live_objects().mappings == live.mappings);
  CHECK(live_objects().reservations == live.reservations + 1);
}

TEST_CASE("growable_device_vector: growth copies no byte" * needs_virtual_memory) {
  const stream stream;
  vector_of_8 vector;
  vector.append(series<element8>(0, 1000), stream);
  const calls_of copies{copying_functions};
  for (std::size_t bytes = 4 * MiB; bytes <= 512 * MiB; bytes *= 2)
    vector.reserve(bytes / sizeof(element8));
  CHECK(copies.count() == 0);
}

TEST_CASE("growable_device_vector: growth past the maximum copies no byte" * needs_virtual_memory) {
  vector_of_8 vector{first_device, {.max_bytes = 8 * MiB}};
  vector.resize_uninitialized(vector.max_size());
  const std::size_t old_max = vector.max_size();
  const calls_of copies{copying_functions};
  vector.reserve(old_max + 1);
  CHECK(vector.max_size() > old_max);
  CHECK(copies.count() == 0);
}

TEST_CASE("growable_device_vector: growth never holds more memory than its capacity" *
          needs_virtual_memory) {
  vector_of_8 vector;
  const std::size_t before = hipvmm_host_device_bytes(0);
  hipvmm_host_reset_peak_device_bytes(0);
  for (std::size_t bytes = 2 * MiB; bytes <= 512 * MiB; bytes *= 2)
    vector.reserve(bytes / sizeof(element8));
  CHECK(hipvmm_host_peak_device_bytes(0) == before + 512 * MiB);
  CHECK(vector.statistics().peak_bytes == 512 * MiB);
}

TEST_CASE("growable_device_vector: growth waits for nothing" * needs_virtual_memory) {
  const stream stream;
  vector_of_8 vector;
  vector.append(series<element8>(0, 1000), stream);
  stream.synchronize();
  held_streams held;
  fill_async(stream, vector.data(), 0x11, 1000 * sizeof(element8));
  const calls_of waits{waiting_functions};
  for (std::size_t bytes = 4 * MiB; bytes <= 256 * MiB; bytes *= 2)
    vector.resize_uninitialized(bytes / sizeof(element8));
  CHECK(waits.count() == 0);
  CHECK_FALSE(stream.is_done());
  held.release();
  stream.synchronize();
  CHECK(vector.element(999, stream).bytes[7] == 0x11);
}

TEST_CASE("growable_device_vector: new bytes may be used by work submitted after growth" *
          needs_virtual_memory) {
  const stream stream;
  vector_of_8 vector;
  held_streams held;
  vector.resize(100'000, stream);
  vector.resize(1'000'000, numbered<element8>(3), stream);
  vector.resize(1'000'001, numbered<element8>(4), stream);
  held.release();
  CHECK(vector.element(0, stream) == element8{});
  CHECK(vector.element(999'999, stream) == numbered<element8>(3));
  CHECK(vector.element(1'000'000, stream) == numbered<element8>(4));
}

TEST_CASE("growable_device_vector: an append makes at most one chunk") {
  const stream stream;
  vector_of_8 vector;
  const std::vector<element8> block = series<element8>(0, 700'000);
  for (int round = 0; round < 20; ++round) {
    const call_counter creations{"hipMemCreate"};
    const call_counter maps{"hipMemMap"};
    const call_counter grants{"hipMemSetAccess"};
    vector.append(block, stream);
    CHECK(creations.count() <= 1);
    CHECK(maps.count() <= 1);
    CHECK(grants.count() <= under(quirks::no_tail_access, 2, 1));
  }
}

TEST_CASE("growable_device_vector: an append within the capacity makes no call but its copy") {
  const stream stream;
  vector_of_8 vector;
  vector.reserve(1000);
  const std::vector<element8> block = series<element8>(0, 100);
  const std::uint64_t before = hipvmm_host_call_count(nullptr);
  vector.append(block, stream);
  // If links are missing, the copy's source is looked up, of which ROCm 5 leaves an error.
  CHECK(hipvmm_host_call_count(nullptr) <= before + (detail::copies_need_links() ? 3 : 1));
}

TEST_CASE("growable_device_vector: growing one element at a time makes O(log n) chunks" *
          needs_virtual_memory) {
  // Elements as large as a granule make one growth decision each, as small ones do by the million.
  growable_device_vector<element<2 * MiB>> vector;
  for (std::size_t count = 1; count <= 480; ++count) vector.resize_uninitialized(count);
  // 8 steps of one granule, then a factor of at least 17/16 each: 8 + log(480 / 8) / log(17/16).
  CHECK(vector.statistics().chunks <= 8 + 68);
  CHECK(vector.statistics().growth_steps == vector.statistics().chunks);
}

TEST_CASE("growable_device_vector: slack is at most an eighth of what was backed" *
          needs_virtual_memory) {
  growable_device_vector<element<2 * MiB>> vector;
  for (std::size_t count = 1; count <= 480; ++count) {
    vector.resize_uninitialized(count);
    CHECK(vector.capacity() - count <= count / 8);
  }
}

TEST_CASE("growable_device_vector: the step limit bounds the slack" * needs_virtual_memory) {
  growable_device_vector<element<2 * MiB>> vector{first_device, {.step_limit = 8 * MiB}};
  for (std::size_t count = 1; count <= 480; ++count) {
    vector.resize_uninitialized(count);
    CHECK(vector.capacity() - count <= 4);
  }
}

TEST_CASE("growable_device_vector: push_back reaches capacity without a step for each element") {
  const stream stream;
  vector_of_8 vector;
  for (std::size_t index = 0; index < 300'000; ++index) vector.push_back(element8{}, stream);
  CHECK(vector.size() == 300'000);
  CHECK(vector.statistics().growth_steps <= 2);
}

HIPVMM_CHILD("two thousand vectors") {
  const stream stream;
  const growth_options options{.granule_bytes = 64 * KiB};
  std::vector<vector_of_8> vectors;
  for (std::size_t index = 0; index < 2000; ++index) {
    vectors.emplace_back(first_device, options);
    vectors.back().append(series<element8>(index, 3), stream);
  }
  CHECK(vectors.front().max_size() > vectors.back().capacity());
  // Each can grow past the maximum that it got.
  vectors.back().resize_uninitialized(4 * MiB);
  for (std::size_t index = 0; index < vectors.size(); ++index) {
    CAPTURE(index);
    CHECK(vectors[index].element(2, stream) == numbered<element8>(index + 2));
  }
}

TEST_CASE("growable_device_vector: two thousand live at once" * needs_virtual_memory) {
  check_child("two thousand vectors",
              {"HIPVMM_HOST_MEMORY=256MiB", "HIPVMM_HOST_GRANULARITY=64KiB"});
}

TEST_CASE("growable_device_vector: two thousand live at once where addresses are scarce" *
          needs_virtual_memory) {
  // 465 times the device, as 64 TiB of addresses beside 141 GiB of memory.
  check_child("two thousand vectors", {"HIPVMM_HOST_MEMORY=256MiB", "HIPVMM_HOST_GRANULARITY=64KiB",
                                       "HIPVMM_HOST_ADDRESS_SPACE=116GiB"});
}

}  // namespace
}  // namespace hipvmm::test
