// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_span.hpp>

#include "container/container_test.hpp"

namespace hipvmm {
namespace {

// A span never touches its elements, so that host memory serves as well as a device's.
struct ten_elements {
  int memory[10] = {};
  device_span<int> span{memory, 10};
};

TEST_CASE("device_span: a default one is empty") {
  const device_span<int> span;
  CHECK(span.empty());
  CHECK(span.data() == nullptr);
  CHECK(span.size() == 0);
  CHECK(span.begin() == span.end());
}

TEST_CASE_FIXTURE(ten_elements, "device_span: knows its elements and their bytes") {
  CHECK_FALSE(span.empty());
  CHECK(span.data() == memory);
  CHECK(span.size() == 10);
  CHECK(span.size_bytes() == 10 * sizeof(int));
  CHECK(span.begin() == memory);
  CHECK(span.end() == memory + 10);
}

TEST_CASE_FIXTURE(ten_elements, "device_span: reads as a span of const, and never the other way") {
  const device_span<const int> read_only = span;
  CHECK(read_only.data() == memory);
  CHECK(read_only.size() == 10);
  CHECK_FALSE(std::is_convertible_v<device_span<const int>, device_span<int>>);
  CHECK_FALSE(std::is_convertible_v<device_span<int>, device_span<const char>>);
}

TEST_CASE_FIXTURE(ten_elements, "device_span: parts name the elements asked for") {
  CHECK(span.first(3).data() == memory);
  CHECK(span.first(3).size() == 3);
  CHECK(span.last(3).data() == memory + 7);
  CHECK(span.last(3).size() == 3);
  CHECK(span.subspan(2, 5).data() == memory + 2);
  CHECK(span.subspan(2, 5).size() == 5);
}

TEST_CASE_FIXTURE(ten_elements, "device_span: parts may be empty or everything") {
  CHECK(span.first(0).empty());
  CHECK(span.last(0).empty());
  CHECK(span.subspan(10, 0).empty());
  CHECK(span.first(10).size() == 10);
  CHECK(span.last(10).data() == memory);
  CHECK(device_span<int>{}.subspan(0, 0).empty());
}

TEST_CASE_FIXTURE(ten_elements, "device_span: parts beyond the end throw out_of_range") {
  constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(static_cast<void>(span.first(11)), std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(span.last(11)), std::out_of_range);
  CHECK_THROWS_WITH_AS(static_cast<void>(span.subspan(11, 0)),
                       doctest::Contains("0 elements from 11 exceed the size, 10"),
                       std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(span.subspan(5, 6)), std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(span.subspan(1, largest)), std::out_of_range);
}

}  // namespace
}  // namespace hipvmm
