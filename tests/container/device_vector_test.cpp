// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_vector.hpp>

#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

template <typename T>
std::vector<T> contents_of(const device_vector<T>& vector, stream_ref stream) {
  std::vector<T> result(vector.size());
  if (!result.empty()) copy(stream, result.data(), vector.data(), result.size() * sizeof(T));
  return result;
}

/// T{} is not zero bytes.
struct with_default {
  int value = 7;
  friend bool operator==(const with_default& a, const with_default& b) {
    return a.value == b.value;
  }
};

TEST_CASE("device_vector: elements are T{} from the start") {
  const stream stream;
  const device_vector<int> zeros{1000, stream};
  CHECK(contents_of(zeros, stream) == std::vector<int>(1000));
  const device_vector<with_default> sevens{1000, stream};
  CHECK(contents_of(sevens, stream) == std::vector<with_default>(1000));
  const device_vector<int> none{0, stream};
  CHECK(none.empty());
  CHECK(none.data() == nullptr);
}

TEST_CASE_TEMPLATE("device_vector: elements are copies of a value", T, element<1>, element8,
                   element12, element300) {
  const stream stream;
  const device_vector<T> vector{1000, numbered<T>(3), stream};
  CHECK(contents_of(vector, stream) == std::vector<T>(1000, numbered<T>(3)));
}

TEST_CASE("device_vector: resize gives added elements values and keeps the others") {
  const stream stream;
  device_vector<with_default> vector{10, with_default{1}, stream};
  vector.resize(20, stream);
  std::vector<with_default> expected(10, with_default{1});
  expected.resize(20);
  CHECK(contents_of(vector, stream) == expected);
  // Within the capacity, old elements do not show.
  vector.resize(5, stream);
  vector.resize(15, stream);
  expected.resize(5);
  expected.resize(15);
  CHECK(contents_of(vector, stream) == expected);
  vector.resize(30, with_default{9}, stream);
  expected.resize(30, with_default{9});
  CHECK(contents_of(vector, stream) == expected);
  vector.resize(0, stream);
  CHECK(vector.empty());
}

TEST_CASE("device_vector: takes its memory from the resource it is given") {
  const stream stream;
  mr::hip_resource resource{first_device};
  device_vector<int> vector{100, 5, stream, &resource};
  CHECK(vector.memory_resource() == &resource);
  const device_vector<int> copied{vector, stream, &resource};
  CHECK(contents_of(copied, stream) == std::vector<int>(100, 5));
  device_vector<int> taken = std::move(vector);
  CHECK(vector.empty());
  CHECK(contents_of(taken, stream) == std::vector<int>(100, 5));
  vector.resize(3, stream);
  CHECK(contents_of(vector, stream) == std::vector<int>(3));
}

TEST_CASE("device_vector: a device_span views it") {
  const stream stream;
  device_vector<int> vector{100, 5, stream};
  const device_span<const int> seen{vector};
  CHECK(seen.data() == vector.data());
  CHECK(seen.size() == 100);
}

TEST_CASE("device_vector: a size beyond the address space throws and changes nothing") {
  const stream stream;
  device_vector<element12> vector{4, numbered<element12>(1), stream};
  const std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
  CHECK_THROWS_AS(vector.resize(huge, stream), std::length_error);
  CHECK(contents_of(vector, stream) == std::vector<element12>(4, numbered<element12>(1)));
}

}  // namespace
}  // namespace hipvmm::test
