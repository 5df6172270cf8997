// SPDX-License-Identifier: MIT
// Differences of growable_device_vector if its memory comes from hipMalloc.
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include "container/container_test.hpp"
#include "support/device_use.hpp"
#include "support/host/host_provider.hpp"
#include "support/is_ready.hpp"

namespace hipvmm::test {
namespace {

// A granule each, so that sizes are numbers of granules.
using granule_sized = element<2 * MiB>;

TEST_CASE("growable_device_vector on hipMalloc: a new one allocates nothing" * needs_fallback) {
  const std::uint64_t before = live_objects().allocations;
  const growable_device_vector<element8> vector;
  CHECK(live_objects().allocations == before);
  CHECK(vector.data() == nullptr);
  CHECK(vector.max_size() == first_device.total_memory() / sizeof(element8));
  CHECK_FALSE(vector.is_address_stable());
}

TEST_CASE("growable_device_vector on hipMalloc: a step adds half of what is there" *
          needs_fallback) {
  growable_device_vector<granule_sized> vector;
  std::size_t moves = 0;
  for (std::size_t size = 1; size <= 60; ++size) {
    const void* const before = vector.data();
    vector.resize_uninitialized(size);
    if (before != nullptr && vector.data() != before) ++moves;
    CHECK(vector.capacity() <= size + size / 2);
  }
  // 1 2 3 4 6 9 13 19 28 42 63
  CHECK(vector.capacity() == 63);
  CHECK(moves == 10);
  const growth_statistics done = vector.statistics();
  CHECK(done.base_moves == moves);
  CHECK(done.growth_steps == moves + 1);
  CHECK(done.copied_bytes == (1 + 2 + 3 + 4 + 6 + 9 + 13 + 19 + 28 + 42) * 2 * MiB);
  CHECK(done.peak_bytes == (42 + 63) * 2 * MiB);
  CHECK(done.chunks == 1);
}

TEST_CASE("growable_device_vector on hipMalloc: where half does not fit an eighth does" *
          needs_fallback) {
  growable_device_vector<granule_sized> vector;
  vector.resize_uninitialized(80);
  const device_allocation rest{first_device, free_memory_at_rest(first_device) - 100 * 2 * MiB};
  vector.resize_uninitialized(81);
  CHECK(vector.capacity() == 90);
}

TEST_CASE("growable_device_vector on hipMalloc: where no slack fits what is asked for does" *
          needs_fallback) {
  const stream stream;
  growable_device_vector<granule_sized> vector;
  vector.resize_uninitialized(80);
  fill_async(stream, vector.data(), 0x5a, 2 * MiB);
  const device_allocation rest{first_device, free_memory_at_rest(first_device) - 85 * 2 * MiB};
  vector.resize_uninitialized(81);
  CHECK(vector.capacity() == 81);
  const void* const data = vector.data();
  CHECK_THROWS_AS(vector.resize_uninitialized(90), out_of_memory);
  CHECK(vector.size() == 81);
  CHECK(vector.data() == data);
  CHECK(read_bytes(stream, vector.data(), 2 * MiB) == byte_vector(2 * MiB, 0x5a));
}

TEST_CASE("growable_device_vector on hipMalloc: growth carries what copies in flight write" *
          needs_fallback) {
  growable_device_vector<element8> vector;
  vector.resize_uninitialized(1000);
  blocked_stream writer{first_device};
  const std::vector<element8> written = series<element8>(0, 1000);
  device_allocation source{first_device, 1000 * sizeof(element8)};
  copy(stream{}, source.get(), written.data(), source.bytes());
  copy_async(writer, vector.data(), source.get(), source.bytes());
  const call_counter waits{"hipDeviceSynchronize"};
  auto growing = std::async(std::launch::async, [&] { vector.resize_uninitialized(2'000'000); });
  // The write comes when growth waits for it, or has not.
  while (waits.count() == 0 && !is_ready(growing)) std::this_thread::yield();
  writer.release();
  growing.get();
  std::vector<element8> read(1000);
  vector.copy_to_host(read.data(), 1000, stream{});
  CHECK(read == written);
}

TEST_CASE("growable_device_vector on hipMalloc: an append of its own elements follows them" *
          needs_fallback) {
  const stream stream;
  growable_device_vector<element8> vector;
  vector.append(series<element8>(0, 200'000), stream);
  const element8* const before = vector.data();
  for (int turn = 0; turn < 3; ++turn)
    vector.append_from_device(vector.span().first(100'000), stream);
  CHECK(vector.data() != before);
  std::vector<element8> tail(100'000);
  copy(stream, tail.data(), vector.end() - 100'000, 100'000 * sizeof(element8));
  CHECK(tail == series<element8>(0, 100'000));
}

TEST_CASE("growable_device_vector on hipMalloc: shrinking moves to less only when told to" *
          needs_fallback) {
  const std::uint64_t before = live_objects().allocations;
  const stream stream;
  growable_device_vector<element8> vector;
  vector.append(series<element8>(0, 2'000'000), stream);
  vector.resize(300'000, stream);
  vector.shrink_to_fit(stream);
  CHECK(vector.capacity() >= 2'000'000);
  vector.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(vector.capacity() * sizeof(element8) == 4 * MiB);
  CHECK(vector.copy_to_host(stream) == series<element8>(0, 300'000));
  CHECK(vector.statistics().base_moves == 1);
  CHECK(vector.statistics().copied_bytes == 4 * MiB);
  CHECK(vector.statistics().peak_bytes == (16 + 4) * MiB);
  vector.clear();
  vector.shrink_to_fit(stream);
  CHECK(vector.capacity() == 0);
  drain_retired_memory();
  CHECK(live_objects().allocations == before);
}

growth_options refusing(std::size_t max_bytes) {
  return growth_options{.max_bytes = max_bytes, .past_max = past_max_size::refuse};
}

TEST_CASE("growable_device_vector on hipMalloc: a pointer for life takes all memory at once" *
          needs_fallback) {
  const stream stream;
  growable_device_vector<element8> vector{first_device, refusing(8 * MiB)};
  CHECK(vector.is_address_stable());
  vector.append(series<element8>(0, 10), stream);
  const element8* const data = vector.data();
  CHECK(vector.capacity() == vector.max_size());
  vector.resize(vector.max_size(), stream);
  vector.resize(10, stream);
  vector.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(vector.data() == data);
  CHECK_THROWS_AS(vector.reserve(vector.max_size() + 1), std::length_error);
  CHECK(vector.copy_to_host(stream) == series<element8>(0, 10));
  vector.clear();
  vector.shrink_to_fit(stream);
  CHECK(vector.data() == data);
  CHECK(vector.statistics().base_moves == 0);
}

TEST_CASE("growable_device_vector on hipMalloc: a pointer for life without a maximum is refused" *
          needs_fallback) {
  CHECK_THROWS_WITH_AS(
      (growable_device_vector<element8>{first_device, refusing(0)}),
      doctest::Contains(
          "virtual_memory: hipDeviceAttributeVirtualMemoryManagementSupported is 0; set "
          "growth_options::max_bytes"),
      unsupported);
}

TEST_CASE("growable_device_vector on hipMalloc: explain says what that means" * needs_fallback) {
  growable_device_vector<element8> vector;
  vector.resize_uninitialized(10);
  vector.resize_uninitialized(1'000'000);
  const std::string text = vector.explain();
  CHECK(text.find("hipMalloc and copies, for virtual_memory: ") != std::string::npos);
  CHECK(text.find("backed 8.00 MiB in 1 allocation\n") != std::string::npos);
  CHECK(text.find("data() changes when memory is added: 1 times so far, with 2.00 MiB copied") !=
        std::string::npos);
}

TEST_CASE("growable_device_vector on hipMalloc: erased bytes are used again when work has passed") {
  growth_options options = refusing(8 * MiB);
  options.fallback = without_vmm::always;
  growable_device_vector<element8> vector{first_device, options};
  const stream reader{first_device};
  const stream writer{first_device};
  vector.append(series<element8>(0, 100), reader);
  std::atomic<bool> has_read{false};
  host_task(reader, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    has_read = true;
  });
  vector.erase_front(vector.size(), reader);
  CHECK(has_read);
  vector.append(series<element8>(100, 100), writer);
  CHECK(vector.copy_to_host(writer) == series<element8>(100, 100));
}

TEST_CASE("growable_device_vector: explain says how the memory is used" * needs_virtual_memory) {
  growable_device_vector<element8> vector;
  vector.resize_uninitialized(10);
  CHECK(vector.is_address_stable());
  const std::string text = vector.explain();
  CHECK(text.find("device 0, " + first_device.name() + ": virtual memory management") == 0);
  CHECK(text.find("backed 2.00 MiB in 1 chunk\n") != std::string::npos);
  CHECK(text.find("data() stays the same within the reservation") != std::string::npos);
  vector = growable_device_vector<element8>{first_device, refusing(8 * MiB)};
  CHECK(vector.explain().find("only erase_front() changes data()\n") != std::string::npos);
  const growable_device_vector<element8> taken = std::move(vector);
  CHECK(vector.explain().find("moved from") != std::string::npos);
}

HIPVMM_TEST_CASE_IN(
    "without virtual memory: growable_device_vector that must not do without says why",
    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  const growth_options options{.fallback = without_vmm::refuse};
  CHECK_THROWS_WITH_AS((growable_device_vector<int>{first_device, options}),
                       doctest::Contains("hipDeviceAttributeVirtualMemoryManagementSupported is 0"),
                       unsupported);
}

}  // namespace
}  // namespace hipvmm::test
