// SPDX-License-Identifier: MIT
// Code of hipMM programs beyond the examples of its README: references of resources, containers
// that tell their stream and resource by hipMM's names, its macros and small helpers.
#include <hipvmm/compat/hipmm.hpp>

#include <memory_resource>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include "support/resource/watched_resource.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

namespace rmm = hipvmm::hipmm;

/// Throws as programs' own resources do.
template <typename Exception>
class refusing_resource final : public rmm::mr::device_memory_resource {
  void* do_allocate(std::size_t, rmm::cuda_stream_view) override { throw make(); }
  void do_deallocate(void*, std::size_t, rmm::cuda_stream_view) override {}
  static Exception make() {
    if constexpr (std::is_constructible_v<Exception, std::string>)
      return Exception{"the quota of this user is spent"};
    else
      return {};
  }
};

/// How often the callback of a failure_callback_resource_adaptor for `Asked` hears of a `Thrown`.
template <typename Thrown, typename Asked>
int times_asked() {
  refusing_resource<Thrown> upstream;
  int asked = 0;
  rmm::mr::failure_callback_resource_adaptor<rmm::mr::device_memory_resource, Asked> adaptor{
      &upstream, [&](std::size_t, void*) { return ++asked < 2; }};
  CHECK_THROWS_AS(static_cast<void>(adaptor.allocate(100)), Thrown);
  return asked;
}

TEST_CASE("hipmm: a resource passes as a pointer, by reference and as a ref") {
  rmm::mr::cuda_memory_resource device;
  const rmm::device_async_resource_ref ref{device};
  rmm::mr::statistics_resource_adaptor<rmm::mr::cuda_memory_resource> by_pointer{&device};
  rmm::mr::statistics_resource_adaptor<rmm::mr::device_memory_resource> by_reference{device};
  rmm::mr::statistics_resource_adaptor<rmm::mr::device_memory_resource> by_ref{ref};
  const rmm::device_buffer first{100, rmm::cuda_stream_default, &by_pointer};
  const rmm::device_buffer second{100, rmm::cuda_stream_default, by_reference};
  const rmm::device_uvector<int> third{25, rmm::cuda_stream_default,
                                       rmm::to_device_async_resource_ref_checked(&by_ref)};
  CHECK(by_pointer.get_bytes_counter().value == 100);
  CHECK(by_reference.get_bytes_counter().value == 100);
  CHECK(by_ref.get_bytes_counter().value == 100);
  CHECK(by_ref.get_upstream_resource() == ref);
  static_assert(rmm::mr::is_resource_adaptor<decltype(by_ref)>);
  static_assert(!rmm::mr::is_resource_adaptor<decltype(device)>);
  // One that ends with the statement passes nowhere.
  using passed = rmm::mr::cuda_memory_resource;
  static_assert(!std::is_convertible_v<passed, hipvmm::mr::memory_resource*>);
  static_assert(!std::is_constructible_v<rmm::device_async_resource_ref, passed>);
  static_assert(!std::is_constructible_v<decltype(by_ref), passed>);
  static_assert(!std::is_constructible_v<rmm::mr::pool_memory_resource<passed>, passed>);
}

TEST_CASE("hipmm: a ref allocates as hipMM's does, with a stream and without one") {
  const rmm::cuda_stream stream;
  watched_resource watched{first_device};
  const rmm::device_async_resource_ref ref{watched};
  ref.deallocate_async(ref.allocate_async(100, stream), 100, stream);
  ref.deallocate_async(ref.allocate_async(200, 512, stream), 200, 512, stream);
  ref.deallocate(ref.allocate(300), 300);
  REQUIRE(watched.allocations.size() == 3);
  CHECK(watched.allocations[0].stream == stream.value());
  CHECK(watched.allocations[1].stream == stream.value());
  CHECK(watched.allocations[2].stream == nullptr);
  CHECK(watched.deallocations.size() == 3);
}

TEST_CASE("hipmm: a ref and a resource have the names of hipMM 4, the stream first") {
  const rmm::cuda_stream stream;
  watched_resource watched{first_device};
  const rmm::device_async_resource_ref ref{watched};
  ref.deallocate(stream, ref.allocate(stream, 100), 100);
  ref.deallocate(stream, ref.allocate(stream, 200, 512), 200, 512);
  ref.deallocate_sync(ref.allocate_sync(300), 300);
  ref.deallocate_sync(ref.allocate_sync(400, 512), 400, 512);
  REQUIRE(watched.allocations.size() == 4);
  for (const std::size_t each : {std::size_t{0}, std::size_t{1}}) {
    CHECK(watched.allocations[each].stream == stream.value());
    CHECK(watched.deallocations[each].stream == stream.value());
  }
  CHECK(watched.allocations[2].stream == nullptr);
  CHECK(watched.allocations[3].bytes == 400);
  rmm::mr::cuda_memory_resource device;
  device.deallocate(stream, device.allocate(stream, 100, 256), 100, 256);
  device.deallocate_sync(device.allocate_sync(100, 256), 100, 256);
}

TEST_CASE("hipmm: a ref is never made of nullptr") {
  rmm::mr::device_memory_resource* const none = nullptr;
  CHECK_THROWS_AS(rmm::device_async_resource_ref{none}, rmm::logic_error);
  CHECK_THROWS_AS(static_cast<void>(rmm::to_device_async_resource_ref_checked(none)),
                  rmm::logic_error);
}

TEST_CASE("hipmm: refs are equal where one resource takes back what the other gave") {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::managed_memory_resource managed;
  hipvmm::mr::hip_resource plain{first_device};
  const rmm::device_async_resource_ref ref{device};
  CHECK(ref == rmm::device_async_resource_ref{plain});
  CHECK(rmm::device_async_resource_ref{plain} == ref);
  CHECK(ref == &plain);
  CHECK(&plain == ref);
  CHECK(ref != rmm::device_async_resource_ref{managed});
  CHECK(ref != &managed);
  CHECK(&managed != ref);
  CHECK(device == rmm::mr::cuda_memory_resource{});
  CHECK(device != managed);
}

TEST_CASE("hipmm: the default resource is told, set and reset by reference") {
  const rmm::device_async_resource_ref initial = rmm::mr::get_current_device_resource_ref();
  CHECK(initial == rmm::mr::get_current_device_resource());
  CHECK(rmm::device_buffer{}.memory_resource() == initial);
  rmm::mr::managed_memory_resource managed;
  CHECK(rmm::mr::set_current_device_resource_ref(managed) == initial);
  CHECK(rmm::mr::get_per_device_resource_ref(rmm::get_current_cuda_device()) == &managed);
  CHECK(rmm::mr::reset_current_device_resource_ref() == &managed);
  CHECK(rmm::mr::get_current_device_resource_ref() == initial);
}

TEST_CASE("hipmm: containers tell their stream and resource by hipMM's types") {
  const rmm::cuda_stream stream;
  rmm::mr::cuda_memory_resource device;
  rmm::device_uvector<int> numbers{4, stream, device};
  CHECK(numbers.stream().value() == stream.value());
  ihipStream_t* const raw = numbers.stream();
  CHECK(raw == stream.value());
  const int* const first = numbers.data();
  CHECK(numbers.rbegin().base() == first + 4);
  CHECK(numbers.rend().base() == first);
  const auto& unchanged = numbers;
  CHECK(unchanged.rend() - unchanged.rbegin() == 4);
  CHECK(numbers.crbegin() == unchanged.rbegin());
  CHECK(numbers.crend() == unchanged.rend());
  const rmm::device_buffer bytes = numbers.release();
  CHECK(bytes.data() == first);
  CHECK(bytes.memory_resource() == &device);
  const rmm::device_buffer copied{bytes, bytes.stream(), bytes.memory_resource()};
  CHECK(copied.size() == bytes.size());
  CHECK(rmm::device_scalar<int>{7, stream, device}.stream().value() == stream.value());
  static_assert(std::is_nothrow_move_constructible_v<rmm::device_buffer>);
  static_assert(!std::is_copy_constructible_v<rmm::device_uvector<int>>);
}

TEST_CASE("hipmm: streams are compared whether they are owned or viewed") {
  const rmm::cuda_stream a;
  const rmm::cuda_stream b;
  CHECK(a == a);
  CHECK(a != b);
  CHECK(a == a.view());
  CHECK(b.view() != a);
}

TEST_CASE("hipmm: a resource takes hipMM's alignments and its calls that end in _async") {
  const rmm::cuda_stream stream;
  rmm::mr::cuda_memory_resource device;
  rmm::mr::aligned_resource_adaptor<rmm::mr::cuda_memory_resource> wide{&device, 4096};
  void* const aligned = wide.allocate(100, 1024);
  CHECK(rmm::is_pointer_aligned(aligned, 1024));
  wide.deallocate(aligned, 100, 1024);
  void* const ordered = device.allocate_async(100, rmm::CUDA_ALLOCATION_ALIGNMENT, stream);
  CHECK(rmm::is_pointer_aligned(ordered));
  device.deallocate_async(ordered, 100, rmm::CUDA_ALLOCATION_ALIGNMENT, stream);
  static_assert(rmm::align_up(257, 256) == 512 && rmm::align_down(511, 256) == 256);
  static_assert(rmm::is_aligned(512, 256) && !rmm::is_aligned(513, 256));
  static_assert(rmm::is_supported_alignment(64) && !rmm::is_supported_alignment(0));
}

TEST_CASE("hipmm: memory of the host is a stream-ordered resource as well") {
  rmm::mr::pinned_memory_resource pinned;
  rmm::mr::pool_memory_resource pool{&pinned, MiB, 8 * MiB};
  auto* const text = static_cast<char*>(pool.allocate(100));
  *text = 'a';
  pool.deallocate(text, 100);
  rmm::host_resource_ref ref{pinned};
  ref.deallocate(ref.allocate(100), 100);
  std::pmr::memory_resource& standard = pinned;
  standard.deallocate(standard.allocate(100), 100);
  const rmm::mr::pinned_memory_resource copied{pinned};
  CHECK(pinned == copied);
}

TEST_CASE("hipmm: a pool whose maximum is less than its initial size is refused") {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::managed_memory_resource managed;
  using managed_pool = rmm::mr::pool_memory_resource<rmm::mr::managed_memory_resource>;
  using device_pool = rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>;
  CHECK_THROWS_AS((managed_pool{managed, 8 * MiB, 4 * MiB}), rmm::logic_error);
  CHECK_THROWS_AS((device_pool{device, 8 * MiB, 4 * MiB}), rmm::logic_error);
}

TEST_CASE("hipmm: a failure callback is asked of the exceptions that its adaptor names") {
  CHECK(times_asked<rmm::bad_alloc, rmm::bad_alloc>() == 2);
  CHECK(times_asked<rmm::out_of_memory, rmm::bad_alloc>() == 2);
  CHECK(times_asked<rmm::out_of_memory, rmm::out_of_memory>() == 2);
  CHECK(times_asked<rmm::bad_alloc, rmm::out_of_memory>() == 0);
}

TEST_CASE("hipmm: a program's resource says in its own words that memory ran out") {
  refusing_resource<rmm::out_of_memory> resource;
  const auto error = thrown_by<rmm::out_of_memory>([&] { return resource.allocate(100); });
  CHECK(std::string{error.what()} == "the quota of this user is spent");
  CHECK(error.resource() == exhausted::limit);
  CHECK(error.device() == -1);
}

TEST_CASE("hipmm: prefetch moves managed memory and leaves other memory where it is") {
  if (!first_device.supports_concurrent_managed_access()) {
    MESSAGE("skipped: managed memory does not move on this device");
    return;
  }
  const rmm::cuda_stream stream;
  rmm::mr::managed_memory_resource managed;
  rmm::mr::cuda_memory_resource device;
  const rmm::device_uvector<int> moved{1000, stream, managed};
  const rmm::device_buffer stays{1000, stream, device};
  rmm::prefetch<int>(moved, rmm::get_current_cuda_device(), stream);
  CHECK_NOTHROW(rmm::prefetch(stays.data(), stays.size(), rmm::cuda_device_id{0}, stream));
  CHECK(last_prefetch_location(moved.data(), 1000 * sizeof(int)) == first_device);
}

TEST_CASE("hipmm: prefetch to a device that does not exist is refused") {
  rmm::mr::managed_memory_resource managed;
  const rmm::device_buffer bytes{1000, rmm::cuda_stream_default, managed};
  CHECK_THROWS_WITH_AS(
      rmm::prefetch(bytes.data(), bytes.size(), rmm::cuda_device_id{99}, rmm::cuda_stream_default),
      doctest::Contains("device 99 does not exist"), rmm::logic_error);
}

TEST_CASE("hipmm: RMM_CUDA_TRY throws what it is told to, and HIP forgets the failure") {
  CHECK_THROWS_AS(RMM_CUDA_TRY(hipSetDevice(99)), rmm::cuda_error);
  CHECK(hipGetLastError() == hipSuccess);
  CHECK_THROWS_AS(RMM_CUDA_TRY(hipSetDevice(99), std::runtime_error), std::runtime_error);
  CHECK_NOTHROW(RMM_CUDA_TRY(hipSetDevice(0), std::runtime_error));
}

TEST_CASE("hipmm: RMM_CUDA_TRY_ALLOC tells lack of memory from other failures") {
  void* pointer = nullptr;
  const auto error = thrown_by<rmm::out_of_memory>(
      [&] { RMM_CUDA_TRY_ALLOC(hipMalloc(&pointer, std::size_t{1} << 50), std::size_t{1} << 50); });
  CHECK(error.bytes_requested() == std::size_t{1} << 50);
  CHECK_THROWS_AS(RMM_CUDA_TRY_ALLOC(hipMalloc(nullptr, 100)), rmm::cuda_error);
  RMM_CUDA_TRY_ALLOC(hipMalloc(&pointer, 100));
  RMM_ASSERT_CUDA_SUCCESS(hipFree(pointer));
}

TEST_CASE("hipmm: RMM_EXPECTS and RMM_FAIL throw with the reason, by default a logic_error") {
  CHECK_NOTHROW(RMM_EXPECTS(true, "of no use"));
  CHECK_THROWS_WITH_AS(RMM_EXPECTS(1 > 2, "one is less"), doctest::Contains("one is less"),
                       rmm::logic_error);
  CHECK_THROWS_AS(RMM_EXPECTS(false, "why", std::runtime_error), std::runtime_error);
  CHECK_THROWS_WITH_AS(RMM_FAIL("no way"), doctest::Contains("no way"), rmm::logic_error);
  CHECK_THROWS_AS(RMM_FAIL("no way", rmm::out_of_memory), rmm::out_of_memory);
}

}  // namespace
}  // namespace hipvmm::test
