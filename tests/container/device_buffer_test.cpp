// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_buffer.hpp>

#include <hipvmm/mr/resource_adaptor.hpp>
#include "container/container_test.hpp"
#include "runtime/peer_copies.hpp"
#include "support/resource/watched_resource.hpp"

namespace hipvmm::test {
namespace {

std::optional<device_ref> second_device() {
  return device_count() > 1 ? std::optional{device_ref{1}} : std::nullopt;
}

struct passing_adaptor final : mr::resource_adaptor {
  explicit passing_adaptor(mr::memory_resource* upstream)
      : resource_adaptor{"passing_adaptor", upstream} {}
};

TEST_CASE("device_buffer: one without arguments owns nothing and uses the device's resource") {
  const stream stream;
  device_buffer buffer;
  CHECK(buffer.data() == nullptr);
  CHECK(buffer.is_empty());
  CHECK(buffer.capacity() == 0);
  CHECK(buffer.stream().is_default());
  CHECK(buffer.device() == first_device);
  CHECK(buffer.memory_resource() == mr::get_current_device_resource());
  buffer.resize(KiB, stream);
  CHECK(buffer.size() == KiB);
}

TEST_CASE("device_buffer: holds what was asked for, of the resource and in the stream named") {
  const stream stream;
  watched_resource resource{first_device};
  const device_buffer buffer{1000, stream, &resource};
  CHECK(buffer.data() != nullptr);
  CHECK(buffer.size() == 1000);
  CHECK(buffer.ssize() == 1000);
  CHECK(buffer.capacity() == 1000);
  CHECK_FALSE(buffer.is_empty());
  CHECK(buffer.stream() == stream.ref());
  CHECK(buffer.memory_resource() == &resource);
  REQUIRE(resource.allocations.size() == 1);
  CHECK(resource.allocations.front().bytes == 1000);
  CHECK(resource.allocations.front().stream == stream.get());
}

TEST_CASE("device_buffer: no bytes are no memory") {
  const stream stream;
  watched_resource resource{first_device};
  {
    const device_buffer buffer{0, stream, &resource};
    const device_buffer copied{nullptr, 0, stream, &resource};
    const device_buffer again{buffer, stream, &resource};
    CHECK(buffer.data() == nullptr);
  }
  CHECK(resource.allocations.empty());
  CHECK(resource.deallocations.empty());
}

TEST_CASE("device_buffer: copies from host memory and from memory of the device") {
  const stream stream;
  const byte_vector bytes = pattern(5000, 1);
  const device_buffer from_host{bytes.data(), bytes.size(), stream};
  const device_buffer from_device{from_host.data(), 4000, stream};
  CHECK(read_bytes(stream, from_host.data(), 5000) == bytes);
  CHECK(read_bytes(stream, from_device.data(), 4000) ==
        byte_vector(bytes.begin(), bytes.begin() + 4000));
}

TEST_CASE("device_buffer: no source is refused") {
  const stream stream;
  CHECK_THROWS_WITH_AS((device_buffer{nullptr, 10, stream}), doctest::Contains("10 bytes"),
                       std::invalid_argument);
}

TEST_CASE("device_buffer: a copy has the contents and no more than them") {
  const stream stream;
  const byte_vector bytes = pattern(1000, 2);
  device_buffer source{bytes.data(), bytes.size(), stream};
  source.reserve(8000, stream);
  const hipvmm::stream other;
  stream.synchronize();
  const device_buffer copied{source, other};
  CHECK(copied.size() == 1000);
  CHECK(copied.capacity() == 1000);
  CHECK(copied.stream() == other.ref());
  CHECK(read_bytes(other, copied.data(), 1000) == bytes);
}

TEST_CASE("device_buffer: a copy needs a stream") {
  CHECK_FALSE(std::is_copy_constructible_v<device_buffer>);
  CHECK_FALSE(std::is_copy_assignable_v<device_buffer>);
}

TEST_CASE("device_buffer: is copied to every other device") {
  const stream stream;
  const byte_vector bytes = pattern(3000, 3);
  const device_buffer source{bytes.data(), bytes.size(), stream};
  stream.synchronize();
  for (int ordinal = 1; ordinal < device_count(); ++ordinal) {
    const scoped_device scope{device_ref{ordinal}};
    const hipvmm::stream there;
    if (detail::missing_link(device_ref{ordinal}, device_ref{ordinal}, first_device)) {
      CHECK_THROWS_AS((device_buffer{source, there}), unsupported);
      continue;
    }
    const device_buffer copied{source, there};
    CHECK(copied.device() == device_ref{ordinal});
    CHECK(read_bytes(there, copied.data(), 3000) == bytes);
  }
}

TEST_CASE("device_buffer: a resource of another device is refused, with both and what to do") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  mr::hip_resource resource{first_device};
  passing_adaptor adaptor{&resource};
  const scoped_device scope{second};
  const stream stream;
  for (mr::memory_resource* const foreign : {static_cast<mr::memory_resource*>(&resource),
                                             static_cast<mr::memory_resource*>(&adaptor)}) {
    CHECK_THROWS_WITH_AS((device_buffer{16, stream, foreign}),
                         doctest::Contains("memory of device 0, and device 1 is current; make "
                                           "device 0 current"),
                         std::invalid_argument);
  }
}

TEST_CASE("device_buffer: memory of no device in particular serves any") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  watched_resource resource{first_device, std::nullopt};
  const scoped_device scope{second};
  const stream stream;
  const device_buffer buffer{16, stream, &resource};
  CHECK(buffer.device() == second);
}

TEST_CASE("device_buffer: no resource is refused") {
  const stream stream;
  CHECK_THROWS_WITH_AS((device_buffer{16, stream, nullptr}), doctest::Contains("nullptr"),
                       std::invalid_argument);
}

TEST_CASE("device_buffer: works and ends under another device as under its own") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  const stream stream{first_device};
  watched_resource resource{first_device};
  {
    device_buffer buffer{16, stream, &resource};
    const scoped_device scope{second};
    buffer.resize(1000, stream);
    buffer.resize(10, stream);
    buffer.shrink_to_fit(stream);
    device_buffer moved = std::move(buffer);
    buffer = device_buffer{};
    CHECK(moved.device() == first_device);
    CHECK(device_ref::current() == second);
  }
  CHECK(resource.allocations.size() == 3);
  CHECK(resource.deallocations.size() == 3);
  for (const auto& call : resource.allocations) CHECK(call.current == first_device);
  for (const auto& call : resource.deallocations) CHECK(call.current == first_device);
}

TEST_CASE("device_buffer: growth keeps the bytes and holds no more than asked") {
  const stream stream;
  const byte_vector bytes = pattern(1000, 4);
  device_buffer buffer{bytes.data(), bytes.size(), stream};
  SUBCASE("resize") {
    buffer.resize(70'000, stream);
    CHECK(buffer.size() == 70'000);
  }
  SUBCASE("reserve") {
    buffer.reserve(70'000, stream);
    CHECK(buffer.size() == 1000);
  }
  CHECK(buffer.capacity() == 70'000);
  CHECK(read_bytes(stream, buffer.data(), 1000) == bytes);
}

TEST_CASE("device_buffer: within the capacity nothing is copied nor allocated") {
  const stream stream;
  const hipvmm::stream other;
  watched_resource resource{first_device};
  device_buffer buffer{1000, stream, &resource};
  const void* const data = buffer.data();
  buffer.resize(10, other);
  buffer.resize(1000, other);
  buffer.reserve(500, other);
  buffer.shrink_to_fit(other);
  CHECK(buffer.data() == data);
  CHECK(buffer.capacity() == 1000);
  CHECK(buffer.stream() == other.ref());
  CHECK(resource.allocations.size() == 1);
}

TEST_CASE("device_buffer: shrink_to_fit leaves the bytes in use") {
  const stream stream;
  const byte_vector bytes = pattern(1000, 5);
  device_buffer buffer{bytes.data(), bytes.size(), stream};
  buffer.resize(300, stream);
  buffer.shrink_to_fit(stream);
  CHECK(buffer.capacity() == 300);
  CHECK(read_bytes(stream, buffer.data(), 300) == byte_vector(bytes.begin(), bytes.begin() + 300));
  buffer.resize(0, stream);
  buffer.shrink_to_fit(stream);
  CHECK(buffer.data() == nullptr);
  CHECK(buffer.capacity() == 0);
}

TEST_CASE("device_buffer: growth beyond the device leaves everything as it was") {
  const stream stream;
  const hipvmm::stream other;
  const byte_vector bytes = pattern(1000, 6);
  device_buffer buffer{bytes.data(), bytes.size(), stream};
  const void* const data = buffer.data();
  constexpr std::size_t too_many = std::numeric_limits<std::size_t>::max() / 4;
  CHECK_THROWS_AS(buffer.resize(too_many, other), std::bad_alloc);
  CHECK_THROWS_AS(buffer.reserve(too_many, other), std::bad_alloc);
  CHECK(buffer.data() == data);
  CHECK(buffer.size() == 1000);
  CHECK(buffer.capacity() == 1000);
  CHECK(buffer.stream() == stream.ref());
  CHECK(read_bytes(stream, data, 1000) == bytes);
}

TEST_CASE("device_buffer: memory goes back in the stream named last") {
  const stream first;
  const stream second;
  const stream third;
  watched_resource resource{first_device};
  {
    device_buffer buffer{10, first, &resource};
    buffer.resize(20, second);
    buffer.set_stream(third);
  }
  REQUIRE(resource.deallocations.size() == 2);
  CHECK(resource.deallocations[0].stream == second.get());
  CHECK(resource.deallocations[0].bytes == 10);
  CHECK(resource.deallocations[1].stream == third.get());
  CHECK(resource.deallocations[1].bytes == 20);
}

TEST_CASE("device_buffer: move assignment gives the old memory back in its own stream") {
  const stream first;
  const stream second;
  watched_resource resource{first_device};
  device_buffer buffer{10, first, &resource};
  device_buffer source{20, second, &resource};
  const void* const data = source.data();
  buffer = std::move(source);
  REQUIRE(resource.deallocations.size() == 1);
  CHECK(resource.deallocations[0].stream == first.get());
  CHECK(buffer.data() == data);
  CHECK(buffer.stream() == second.ref());
  CHECK(source.data() == nullptr);
}

TEST_CASE("device_buffer: one that was moved from is used again") {
  const stream stream;
  watched_resource resource{first_device};
  device_buffer buffer{10, stream, &resource};
  const device_buffer taken = std::move(buffer);
  CHECK(buffer.is_empty());
  CHECK(buffer.capacity() == 0);
  buffer.resize(30, stream);
  CHECK(buffer.memory_resource() == &resource);
  CHECK(buffer.data() != taken.data());
}

}  // namespace
}  // namespace hipvmm::test
