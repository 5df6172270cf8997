// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_uvector.hpp>

#include <hipvmm/container/device_scalar.hpp>
#include "container/container_test.hpp"
#include "support/resource/watched_resource.hpp"

namespace hipvmm::test {
namespace {

// A size that no fill writes in one call.

template <typename T>
std::vector<T> contents(const device_uvector<T>& vector, stream_ref stream) {
  std::vector<T> result(vector.size());
  copy(stream, result.data(), vector.data(), result.size() * sizeof(T));
  return result;
}

/// A vector of the first `count` elements of the series.
device_uvector<element12> numbered_vector(std::size_t count, stream_ref stream) {
  device_uvector<element12> result{count, stream};
  const std::vector<element12> values = series<element12>(0, count);
  copy_async(stream, result.data(), values.data(), count * sizeof(element12));
  return result;
}

TEST_CASE("device_uvector: counts elements, and its memory is the resource's") {
  const stream stream;
  watched_resource resource{first_device};
  device_uvector<element12> vector{100, stream, &resource};
  vector.resize(40, stream);
  CHECK(vector.size() == 40);
  CHECK(vector.ssize() == 40);
  CHECK(vector.capacity() == 100);
  CHECK_FALSE(vector.is_empty());
  CHECK(vector.end() - vector.begin() == 40);
  CHECK(vector.cend() - vector.cbegin() == 40);
  CHECK(vector.span().size() == 40);
  CHECK(vector.begin() == vector.data());
  CHECK(vector.memory_resource() == &resource);
  CHECK(vector.stream() == stream.ref());
  CHECK(vector.device() == first_device);
  CHECK(resource.allocations.front().bytes == 1200);
}

TEST_CASE("device_uvector: needs a stream to be made and to be copied") {
  CHECK_FALSE(std::is_default_constructible_v<device_uvector<int>>);
  CHECK_FALSE(std::is_copy_constructible_v<device_uvector<int>>);
  CHECK_FALSE(std::is_copy_assignable_v<device_uvector<int>>);
  CHECK(std::is_nothrow_move_constructible_v<device_uvector<int>>);
}

TEST_CASE("device_uvector: an element is written and read") {
  const stream stream;
  device_uvector<element12> vector = numbered_vector(10, stream);
  const element12 other = numbered<element12>(77);
  vector.set_element_async(3, other, stream);
  vector.set_element(9, numbered<element12>(78), stream);
  CHECK(vector.element(3, stream) == other);
  CHECK(vector.element(2, stream) == numbered<element12>(2));
  CHECK(vector.front_element(stream) == numbered<element12>(0));
  CHECK(vector.back_element(stream) == numbered<element12>(78));
  CHECK(vector.element_ptr(3) == vector.data() + 3);
}

TEST_CASE_TEMPLATE("device_uvector: every value of a plain type arrives as it is", T, bool,
                   std::uint8_t, std::int32_t, std::uint64_t, float, double) {
  const stream stream;
  device_uvector<T> vector{3, stream};
  for (const T set : {std::numeric_limits<T>::lowest(), T{0}, static_cast<T>(-T{0}), T{1},
                      std::numeric_limits<T>::max()}) {
    vector.set_element_async(1, set, stream);
    const T read = vector.element(1, stream);
    // The sign of zero counts. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    CHECK(std::memcmp(&read, &set, sizeof(T)) == 0);
  }
}

TEST_CASE("device_uvector: an element is set to zero bytes, and no other") {
  const stream stream;
  device_uvector<element12> vector = numbered_vector(3, stream);
  vector.set_element_to_zero_async(1, stream);
  CHECK(contents(vector, stream) ==
        std::vector<element12>{numbered<element12>(0), element12{}, numbered<element12>(2)});
}

struct made_of_one {
  made_of_one() = delete;
  explicit made_of_one(int given) : number{given} {}
  int number;
};

TEST_CASE("device_uvector: elements need no default constructor") {
  const stream stream;
  device_uvector<made_of_one> vector{2, stream};
  vector.set_element(1, made_of_one{5}, stream);
  CHECK(vector.element(1, stream).number == 5);
}

TEST_CASE("device_uvector: an element beyond the size throws out_of_range and is named") {
  const stream stream;
  device_uvector<element12> vector{10, stream};
  vector.resize(5, stream);
  const element12 one = numbered<element12>(1);
  const auto check_refused = [&](auto call) {
    CHECK_THROWS_WITH_AS(call(), "device_uvector: element 5 is beyond the size, 5",
                         std::out_of_range);
  };
  check_refused([&] { static_cast<void>(vector.element(5, stream)); });
  check_refused([&] { static_cast<void>(vector.element_ptr(5)); });
  check_refused([&] { static_cast<void>(std::as_const(vector).element_ptr(5)); });
  check_refused([&] { vector.set_element(5, one, stream); });
  check_refused([&] { vector.set_element_async(5, one, stream); });
  check_refused([&] { vector.set_element_to_zero_async(5, stream); });
}

TEST_CASE("device_uvector: an empty one has neither a first nor a last element") {
  const stream stream;
  const device_uvector<int> vector{0, stream};
  CHECK(vector.is_empty());
  CHECK_THROWS_AS(static_cast<void>(vector.front_element(stream)), std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(vector.back_element(stream)), std::out_of_range);
}

TEST_CASE("device_uvector: more elements than addresses throw length_error and change nothing") {
  const stream stream;
  constexpr std::size_t too_many = std::numeric_limits<std::size_t>::max() / sizeof(element12) + 1;
  CHECK_THROWS_AS((device_uvector<element12>{too_many, stream}), std::length_error);
  device_uvector<element12> vector = numbered_vector(3, stream);
  CHECK_THROWS_AS(vector.resize(too_many, stream), std::length_error);
  CHECK_THROWS_AS(vector.reserve(too_many, stream), std::length_error);
  CHECK(contents(vector, stream) == series<element12>(0, 3));
}

TEST_CASE("device_uvector: resize, reserve and shrink_to_fit keep the elements") {
  const stream stream;
  device_uvector<element12> vector = numbered_vector(1000, stream);
  vector.reserve(5000, stream);
  CHECK(vector.capacity() == 5000);
  vector.resize(6000, stream);
  CHECK(vector.capacity() == 6000);
  vector.resize(1000, stream);
  vector.shrink_to_fit(stream);
  CHECK(vector.capacity() == 1000);
  CHECK(contents(vector, stream) == series<element12>(0, 1000));
}

TEST_CASE("device_uvector: a copy has the elements") {
  const stream stream;
  const device_uvector<element12> vector = numbered_vector(100, stream);
  const device_uvector<element12> copied{vector, stream};
  CHECK(copied.data() != vector.data());
  CHECK(contents(copied, stream) == series<element12>(0, 100));
}

TEST_CASE("device_uvector: release passes the memory on, and the vector is used again") {
  const stream stream;
  device_uvector<element12> vector = numbered_vector(100, stream);
  const element12* const data = vector.data();
  const device_buffer buffer = vector.release();
  CHECK(buffer.data() == data);
  CHECK(buffer.size() == 1200);
  CHECK(vector.is_empty());
  vector.resize(10, stream);
  CHECK(vector.size() == 10);
}

TEST_CASE("device_scalar: is made with a value or without, and read") {
  const stream stream;
  watched_resource resource{first_device};
  const device_scalar<double> with{2.5, stream, &resource};
  const device_scalar<double> without{stream, &resource};
  CHECK(with.value(stream) == 2.5);
  CHECK(with.size() == 1);
  CHECK(without.data() != nullptr);
  CHECK(without.memory_resource() == &resource);
  CHECK(without.device() == first_device);
}

TEST_CASE("device_scalar: takes a new value, with and without waiting") {
  const stream stream;
  device_scalar<std::int32_t> scalar{stream};
  scalar.set_value(42, stream);
  CHECK(scalar.value(stream) == 42);
  const std::int32_t next = 7;
  scalar.set_value_async(next, stream);
  CHECK(scalar.value(stream) == 7);
  scalar.set_value_to_zero_async(stream);
  CHECK(scalar.value(stream) == 0);
}

TEST_CASE("device_scalar: is copied with a stream and moved without") {
  const stream stream;
  const hipvmm::stream other;
  device_scalar<int> scalar{3, stream};
  stream.synchronize();
  const device_scalar<int> copied{scalar, other};
  CHECK(copied.stream() == other.ref());
  CHECK(copied.value(other) == 3);
  const device_scalar<int> moved = std::move(scalar);
  CHECK(moved.value(stream) == 3);
  constexpr const char* empty = "the device_scalar is empty: it was moved from";
  CHECK_THROWS_WITH_AS(static_cast<void>(scalar.value(stream)), empty, std::out_of_range);
  CHECK_THROWS_WITH_AS(scalar.set_value(1, stream), empty, std::out_of_range);
  CHECK_THROWS_WITH_AS(scalar.set_value_to_zero_async(stream), empty, std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(scalar.value(stream)), std::out_of_range);
}

}  // namespace
}  // namespace hipvmm::test
