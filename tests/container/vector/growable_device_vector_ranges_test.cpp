// SPDX-License-Identifier: MIT
// Constructors, and the ranges that may be appended, assigned, inserted and erased.
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include "container/container_test.hpp"
#include "support/test_bytes.hpp"

namespace hipvmm::test {
namespace {

using value = element<12>;
using vector_of_values = growable_device_vector<value>;

template <typename Iterator, typename = void>
inline constexpr bool can_be_read = false;
template <typename Iterator>
inline constexpr bool can_be_read<Iterator, std::void_t<decltype(*std::declval<Iterator>())>> =
    true;
template <typename Iterator, typename = void>
inline constexpr bool can_be_indexed = false;
template <typename Iterator>
inline constexpr bool can_be_indexed<Iterator, std::void_t<decltype(std::declval<Iterator>()[0])>> =
    true;

/// Another library's vector in device memory, as rmm::device_uvector.
struct foreign_device_vector {
  value* data() const;
  std::size_t size() const;
  value* begin() const;
  value* end() const;
};

/// A maximum that the next doubling exceeds.
growth_options small_maximum() { return growth_options{.max_bytes = 4 * MiB}; }

}  // namespace

TEST_CASE("growable_device_vector: the host cannot dereference its iterators") {
  CHECK_FALSE(can_be_read<vector_of_values::iterator>);
  CHECK_FALSE(can_be_read<vector_of_values::const_iterator>);
  CHECK_FALSE(can_be_read<device_span<value>::iterator>);
  CHECK_FALSE(can_be_indexed<vector_of_values::iterator>);
  CHECK(can_be_read<value*>);
  using traits = std::iterator_traits<vector_of_values::const_iterator>;
  CHECK(std::is_same_v<traits::value_type, value>);
  CHECK(std::is_same_v<traits::reference, const value&>);
  CHECK(std::is_convertible_v<vector_of_values::iterator, vector_of_values::const_iterator>);
  CHECK_FALSE(std::is_convertible_v<vector_of_values::const_iterator, vector_of_values::iterator>);
  CHECK(std::is_convertible_v<vector_of_values::iterator, value*>);
}

TEST_CASE("device_iterator: counts as a pointer does") {
  value elements[10] = {};
  const device_span<value> span{elements, 10};
  auto at = span.begin();
  CHECK(at == elements);
  CHECK(at + 10 == span.end());
  CHECK(10 + at == span.end());
  CHECK(span.end() - 3 == elements + 7);
  CHECK(span.end() - span.begin() == 10);
  CHECK(at++ == elements);
  CHECK(++at == elements + 2);
  CHECK(at-- == elements + 2);
  CHECK(--at == elements);
  CHECK((at += 4) == elements + 4);
  CHECK((at -= 1).get() == elements + 3);
  CHECK(at < span.end());
  CHECK(at >= span.begin());
  CHECK(std::distance(at, span.end()) == 7);
}

TEST_CASE("growable_device_vector: which ranges are of the host and which of a device") {
  using detail::is_device_range_v;
  using detail::is_host_range_v;
  CHECK(is_host_range_v<std::vector<value>, value>);
  CHECK(is_host_range_v<value[3], value>);
  CHECK_FALSE(is_host_range_v<std::vector<int>, value>);
  CHECK_FALSE(is_host_range_v<std::initializer_list<value>, value>);
  for (const bool is_host :
       {is_host_range_v<vector_of_values, value>, is_host_range_v<device_span<value>, value>,
        is_host_range_v<device_uvector<value>, value>,
        is_host_range_v<foreign_device_vector, value>})
    CHECK_FALSE(is_host);
  CHECK(is_device_range_v<vector_of_values, value>);
  CHECK(is_device_range_v<device_span<value>, value>);
  CHECK(is_device_range_v<device_span<const value>, value>);
  CHECK(is_device_range_v<device_uvector<value>, value>);
  CHECK(is_device_range_v<device_scalar<value>, value>);
  CHECK_FALSE(is_device_range_v<device_uvector<int>, value>);
  CHECK_FALSE(is_device_range_v<foreign_device_vector, value>);
  CHECK_FALSE(is_device_range_v<std::vector<value>, value>);
}

TEST_CASE("device_span: views the elements of each container") {
  const stream stream;
  vector_of_values vector{5, stream};
  device_uvector<value> fixed{6, stream};
  device_scalar<value> one{stream};
  device_buffer bytes{7, stream};
  const device_span<value> whole = vector;
  CHECK(whole.data() == vector.data());
  CHECK(whole.size() == 5);
  CHECK(device_span<const value>{vector}.size() == 5);
  CHECK(device_span<const value>{std::as_const(fixed)}.data() == fixed.data());
  CHECK(device_span<value>{one}.size() == 1);
  CHECK(device_span<std::byte>{bytes}.size() == 7);
  // A vector that ends with the statement is for reading, as with std::span.
  CHECK(std::is_convertible_v<vector_of_values, device_span<const value>>);
  CHECK_FALSE(std::is_convertible_v<vector_of_values, device_span<value>>);
  CHECK_FALSE(std::is_convertible_v<const vector_of_values&, device_span<value>>);
}

TEST_CASE("growable_device_vector: constructors with contents") {
  const stream stream;
  const std::vector<value> source = series<value>(3, 40);
  CHECK(vector_of_values{100, stream}.copy_to_host(stream) == std::vector<value>(100));
  CHECK(vector_of_values{4, numbered<value>(9), stream}.copy_to_host(stream) ==
        std::vector<value>(4, numbered<value>(9)));
  const vector_of_values copied{source, stream};
  CHECK(copied.copy_to_host(stream) == source);
  CHECK(vector_of_values{copied, stream}.copy_to_host(stream) == source);
  CHECK(vector_of_values{copied.span().first(7), stream}.copy_to_host(stream) ==
        series<value>(3, 7));
  CHECK(vector_of_values{{numbered<value>(1), numbered<value>(2)}, stream}.size() == 2);
  CHECK(vector_of_values{source, stream, small_maximum()}.max_size() <= 4 * MiB / sizeof(value));
  CHECK_FALSE(std::is_constructible_v<vector_of_values, std::vector<int>, const hipvmm::stream&>);
}

TEST_CASE("growable_device_vector: front and back are elements, and none of an empty one") {
  const stream stream;
  vector_of_values vector{series<value>(3, 40), stream};
  CHECK(vector.front_element(stream) == numbered<value>(3));
  CHECK(vector.back_element(stream) == numbered<value>(42));
  vector.clear();
  CHECK_THROWS_AS(static_cast<void>(vector.front_element(stream)), std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(vector.back_element(stream)), std::out_of_range);
}

TEST_CASE("growable_device_vector: appended to itself it doubles, though data() moves") {
  const stream stream;
  const std::vector<value> source = series<value>(0, 300'000);
  vector_of_values vector{source, stream, small_maximum()};
  vector.append(vector, stream);
  std::vector<value> expected = source;
  expected.insert(expected.end(), source.begin(), source.end());
  CHECK(vector.copy_to_host(stream) == expected);
  vector.append(std::as_const(vector).span().last(1), stream);
  expected.push_back(source.back());
  CHECK(vector.copy_to_host(stream) == expected);
}

TEST_CASE("growable_device_vector: takes the elements of other containers on the device") {
  const stream stream;
  device_uvector<value> fixed{3, stream};
  device_scalar<value> one{numbered<value>(8), stream};
  for (std::size_t i = 0; i < 3; ++i) fixed.set_element(i, numbered<value>(i), stream);
  vector_of_values vector{fixed, stream};
  vector.append(one, stream);
  vector.insert(1, one, stream);
  CHECK(vector.copy_to_host(stream) == std::vector<value>{numbered<value>(0), numbered<value>(8),
                                                          numbered<value>(1), numbered<value>(2),
                                                          numbered<value>(8)});
  vector.assign(fixed, stream);
  CHECK(vector.copy_to_host(stream) == series<value>(0, 3));
}

TEST_CASE("growable_device_vector: assigned a part of itself, near or far") {
  const stream stream;
  const std::size_t size = test_bytes(200'000 * sizeof(value), 4 * KiB) / sizeof(value);
  for (const std::size_t from : {std::size_t{0}, std::size_t{1}, size / 9 * 4, size - 1}) {
    CAPTURE(from);
    vector_of_values vector{series<value>(0, size), stream};
    vector.assign(vector.span().subspan(from, size - from), stream);
    CHECK(vector.copy_to_host(stream) == series<value>(from, size - from));
  }
}

TEST_CASE("growable_device_vector: insert and erase name a place that is none") {
  const stream stream;
  vector_of_values vector{series<value>(0, 10), stream};
  CHECK_THROWS_WITH_AS(vector.insert(11, 1, numbered<value>(1), stream),
                       doctest::Contains("insert: 11 is beyond the size, 10"), std::out_of_range);
  CHECK_THROWS_WITH_AS(vector.erase(5, 6, stream),
                       doctest::Contains("erase: 5 + 6 is beyond the size, 10"), std::out_of_range);
  CHECK_THROWS_AS(vector.erase(11, 0, stream), std::out_of_range);
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t index : {std::size_t{1}, std::size_t{10}, most})
    CHECK_THROWS_AS(vector.erase(index, most, stream), std::out_of_range);
  CHECK_THROWS_AS(vector.insert(0, nullptr, 2, stream), std::invalid_argument);
  vector.erase(10, 0, stream);
  vector.insert(10, std::vector<value>{}, stream);
  CHECK(vector.copy_to_host(stream) == series<value>(0, 10));
  vector.insert(0, {numbered<value>(1), numbered<value>(2)}, stream);
  CHECK(vector.front_element(stream) == numbered<value>(1));
  CHECK(vector.size() == 12);
}

TEST_CASE("growable_device_vector: shrink_to_fit returns the bytes that it releases") {
  const stream stream;
  vector_of_values vector{1'000'000, stream};
  const std::size_t before = vector.capacity() * sizeof(value);
  vector.resize(10, stream);
  const std::size_t released = vector.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(released > 0);
  CHECK(released >= before - vector.capacity() * sizeof(value) - sizeof(value));
  CHECK(released <= before);
  CHECK(vector.shrink_to_fit(stream) == 0);
}

}  // namespace hipvmm::test
