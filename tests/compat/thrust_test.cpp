// SPDX-License-Identifier: MIT
#include <hipvmm/compat/hipmm_thrust.hpp>
#include <hipvmm/compat/thrust.hpp>

#include <doctest/doctest.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "support/devices.hpp"
#include "support/resource/watched_resource.hpp"

// Compiled by nvcc or hipcc for a GPU, and elsewhere over Thrust's CPP system.
namespace hipvmm::test {
namespace {

using mr::thrust_allocator;

std::optional<device_ref> second_device() {
  return device_count() > 1 ? std::optional{device_ref{1}} : std::nullopt;
}

/// Numbers that fall from `count` to 1.
std::vector<int> falling(int count) {
  std::vector<int> result;
  for (int number = count; number > 0; --number) result.push_back(number);
  return result;
}

TEST_CASE("thrust_allocator: one without arguments uses the null stream and the current resource") {
  const thrust_allocator<int> allocator;
  CHECK(allocator.stream().is_default());
  CHECK(allocator.get_upstream_resource() == mr::get_current_device_resource());
  CHECK(allocator.device() == first_device);
}

TEST_CASE("thrust_allocator: allocates and deallocates under its own device") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  const stream stream{first_device};
  watched_resource resource{first_device};
  thrust_allocator<int> allocator{stream, &resource};
  thrust_allocator<double> rebound{allocator};
  const scoped_device scope{second};
  allocator.deallocate(allocator.allocate(10), 10);
  rebound.deallocate(rebound.allocate(10), 10);
  REQUIRE(resource.deallocations.size() == 2);
  for (const auto& call : resource.deallocations) {
    CHECK(call.current == first_device);
    CHECK(call.stream == stream.get());
  }
  CHECK(resource.deallocations[1].bytes == 80);
}

TEST_CASE("thrust_allocator: a resource of another device, and none, are refused") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  const stream stream{first_device};
  mr::hip_resource resource{second};
  CHECK_THROWS_WITH_AS((thrust_allocator<int>{stream, &resource}),
                       doctest::Contains("memory of device 1, and device 0 is current"),
                       std::invalid_argument);
  CHECK_THROWS_AS((thrust_allocator<int>{stream, nullptr}), std::invalid_argument);
  CHECK_THROWS_AS((exec_policy{stream, &resource}), std::invalid_argument);
}

TEST_CASE("thrust_allocator: is equal to those of the same memory and stream") {
  const stream stream;
  watched_resource one{first_device};
  watched_resource other{first_device};
  const thrust_allocator<int> allocator{stream, &one};
  CHECK(allocator == thrust_allocator<double>{stream, &one});
  CHECK(allocator != thrust_allocator<int>{stream, &other});
  CHECK(allocator != thrust_allocator<int>{stream_ref::legacy_default(), &one});
}

TEST_CASE("device_vector: is made of the resource's memory and ends under another device") {
  watched_resource resource{first_device};
  {
    const thrust_allocator<int> allocator{stream_ref::legacy_default(), &resource};
    std::optional<device_vector<int>> numbers{std::in_place, 16, allocator};
    thrust::sequence(numbers->begin(), numbers->end());
    CHECK(thrust::reduce(numbers->begin(), numbers->end()) == 120);
    HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
    const scoped_device scope{second};
    numbers.reset();
  }
  REQUIRE(resource.deallocations.size() == 1);
  CHECK(resource.deallocations[0].bytes == 64);
  CHECK(resource.deallocations[0].current == first_device);
}

TEST_CASE("device_vector: what moves and swaps goes back where it came from") {
  watched_resource one{first_device};
  watched_resource other{first_device};
  const stream_ref stream = stream_ref::legacy_default();
  {
    device_vector<int> a{10, thrust_allocator<int>{stream, &one}};
    device_vector<int> b{20, thrust_allocator<int>{stream, &other}};
    device_vector<int> c{30, thrust_allocator<int>{stream, &other}};
    a.swap(b);
    CHECK(a.size() == 20);
    b = std::move(c);
  }
  REQUIRE(one.allocations.size() == 1);
  REQUIRE(one.deallocations.size() == 1);
  CHECK(one.deallocations[0].bytes == 40);
  CHECK(other.allocations.size() == 2);
  REQUIRE(other.deallocations.size() == 2);
  CHECK(other.deallocations[0].bytes + other.deallocations[1].bytes == 200);
}

TEST_CASE("hipmm: a device_vector of a thrust_allocator ends under another device") {
  namespace rmm = hipvmm::hipmm;
  rmm::mr::cuda_memory_resource device;
  rmm::mr::statistics_resource_adaptor mr{&device};
  {
    const rmm::mr::thrust_allocator<int> allocator(rmm::cuda_stream_default, &mr);
    std::optional<rmm::device_vector<int>> vec_owner{std::in_place, 16, allocator};
    rmm::device_vector<int>& vec = *vec_owner;
    thrust::sequence(vec.begin(), vec.end());
    thrust::sort(rmm::exec_policy(rmm::cuda_stream_default), vec.begin(), vec.end());
    CHECK(vec[15] == 15);
    HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
    const scoped_device scope{second};
    vec_owner.reset();
  }
  CHECK(mr.get_bytes_counter().value == 0);
}

TEST_CASE_TEMPLATE("exec_policy: algorithms take temporary memory from the resource, in the stream",
                   Policy, exec_policy, exec_policy_nosync) {
  constexpr int count = 100'000;
  const stream stream;
  watched_resource resource{first_device};
  const std::vector<int> numbers = falling(count);
  device_uvector<int> sorted{count, stream};
  copy_async(stream, sorted.data(), numbers.data(), count * sizeof(int));
  const auto first = thrust::device_pointer_cast(sorted.data());
  thrust::sort(Policy{stream, &resource}, first, first + count);
  CHECK(sorted.front_element(stream) == 1);
  CHECK(sorted.element(count / 2, stream) == count / 2 + 1);
  CHECK(sorted.back_element(stream) == count);
  CHECK(resource.deallocations.size() > 0);
  for (const auto& call : resource.deallocations) CHECK(call.stream == stream.get());
}

}  // namespace
}  // namespace hipvmm::test
