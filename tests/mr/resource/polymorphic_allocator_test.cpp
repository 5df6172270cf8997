// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/polymorphic_allocator.hpp>

#include <hipvmm/mr/adaptor/stream_allocator_adaptor.hpp>
#include "support/device_bytes.hpp"
#include "support/resource/watched_resource.hpp"
#include "support/test.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;
using test::pattern;
using test::watched_resource;

TEST_CASE("polymorphic_allocator: uses the current device's resource, or the one it is given") {
  hip_resource resource{first_device};
  const polymorphic_allocator<int> standard;
  const polymorphic_allocator<int> chosen{&resource};
  CHECK(standard.get_upstream_resource() == get_current_device_resource());
  CHECK(chosen.get_upstream_resource() == &resource);
  CHECK(std::is_convertible_v<hip_resource*, polymorphic_allocator<int>>);
}

TEST_CASE("polymorphic_allocator: no resource is refused") {
  CHECK_THROWS_AS(polymorphic_allocator<int>{nullptr}, std::invalid_argument);
}

TEST_CASE("polymorphic_allocator: allocates elements in the stream of the call") {
  const stream stream;
  const hipvmm::stream other;
  watched_resource resource{first_device};
  polymorphic_allocator<std::int64_t> allocator{&resource};
  std::int64_t* const memory = allocator.allocate(100, stream);
  const test::byte_vector bytes = pattern(800, 1);
  test::write_bytes(stream, memory, bytes);
  CHECK(test::read_bytes(stream, memory, 800) == bytes);
  allocator.deallocate(memory, 100, other);
  REQUIRE(resource.allocations.size() == 1);
  CHECK(resource.allocations.front().bytes == 800);
  CHECK(resource.allocations.front().stream == stream.get());
  REQUIRE(resource.deallocations.size() == 1);
  CHECK(resource.deallocations.front().bytes == 800);
  CHECK(resource.deallocations.front().stream == other.get());
}

TEST_CASE("polymorphic_allocator: no elements are nullptr, and too many throw length_error") {
  const stream stream;
  polymorphic_allocator<std::int64_t> allocator;
  CHECK(allocator.allocate(0, stream) == nullptr);
  CHECK_THROWS_AS(static_cast<void>(allocator.allocate(
                      std::numeric_limits<std::size_t>::max() / sizeof(std::int64_t) + 1, stream)),
                  std::length_error);
}

TEST_CASE("polymorphic_allocator: is equal to those whose resources are equal") {
  hip_resource one{first_device};
  hip_resource same{first_device};
  watched_resource other{first_device};
  const polymorphic_allocator<int> allocator{&one};
  CHECK(allocator == polymorphic_allocator<int>{&same});
  CHECK(allocator == polymorphic_allocator<double>{allocator});
  CHECK(allocator != polymorphic_allocator<int>{&other});
}

TEST_CASE("polymorphic_allocator: allocator_traits finds that of other elements") {
  using rebound = std::allocator_traits<polymorphic_allocator<int>>::rebind_alloc<double>;
  CHECK(std::is_same_v<rebound, polymorphic_allocator<double>>);
}

TEST_CASE("stream_allocator_adaptor: allocates in its stream without being told") {
  const stream stream;
  watched_resource resource{first_device};
  const polymorphic_allocator<int> stream_ordered{&resource};
  auto adapted = stream_allocator_adaptor(stream_ordered, stream);
  int* const memory = adapted.allocate(100);
  CHECK(memory != nullptr);
  adapted.deallocate(memory, 100);
  CHECK(resource.allocations.front().bytes == 400);
  CHECK(resource.allocations.front().stream == stream.get());
  CHECK(resource.deallocations.front().stream == stream.get());
  CHECK(adapted.stream() == stream.ref());
  CHECK(adapted.underlying_allocator() == stream_ordered);
}

TEST_CASE("stream_allocator_adaptor: is a standard allocator for other elements too") {
  const stream stream;
  watched_resource resource{first_device};
  using adaptor = stream_allocator_adaptor<polymorphic_allocator<int>>;
  using traits = std::allocator_traits<adaptor>;
  using rebound = traits::rebind_alloc<double>;
  CHECK(std::is_same_v<rebound, stream_allocator_adaptor<polymorphic_allocator<double>>>);
  adaptor adapted{&resource, stream};
  rebound other{adapted};
  double* const memory = std::allocator_traits<rebound>::allocate(other, 10);
  std::allocator_traits<rebound>::deallocate(other, memory, 10);
  CHECK(resource.deallocations.front().bytes == 80);
  CHECK(other == adapted);
}

TEST_CASE("stream_allocator_adaptor: is equal to those of the same memory and stream") {
  const stream stream;
  const hipvmm::stream other;
  hip_resource one{first_device};
  watched_resource another{first_device};
  const polymorphic_allocator<int> allocator{&one};
  const stream_allocator_adaptor adapted{allocator, stream};
  CHECK(adapted == stream_allocator_adaptor{allocator, stream});
  CHECK(adapted != stream_allocator_adaptor{allocator, other});
  CHECK(adapted != stream_allocator_adaptor{polymorphic_allocator<int>{&another}, stream});
}

}  // namespace
}  // namespace hipvmm::mr
