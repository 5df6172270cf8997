// SPDX-License-Identifier: MIT
#include <hipvmm/container/reserve_all.hpp>

#include "support/element.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/host/host_provider.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::array chunk_functions{"hipMemCreate", "hipMemMap", "hipMemSetAccess"};

/// Vectors of three element types, the first with erased elements in front.
struct three_vectors {
  hipvmm::stream stream{second_device};
  growable_device_vector<int> numbers{second_device};
  growable_device_vector<element12> points{second_device};
  growable_device_vector<element300> rows{second_device};
  std::array<std::size_t, 3> before{};

  three_vectors() {
    numbers.append({1, 2, 3}, stream);
    numbers.erase_front(1, stream);
    points.append(series<element12>(0, 10), stream);
    before = capacities();
  }
  [[nodiscard]] std::array<std::size_t, 3> capacities() const {
    return {numbers.capacity(), points.capacity(), rows.capacity()};
  }
  void check_elements() const {
    CHECK(numbers.copy_to_host(stream) == std::vector<int>{2, 3});
    CHECK(points.copy_to_host(stream) == series<element12>(0, 10));
  }
};

TEST_CASE("reserve_all: makes room in vectors of any element types") {
  three_vectors all;
  reserve_all({{all.numbers, 2'000'000}, {all.points, 1'000'000}, {all.rows, 10'000}});
  CHECK(all.numbers.capacity() >= 2'000'000);
  CHECK(all.points.capacity() >= 1'000'000);
  CHECK(all.rows.capacity() >= 10'000);
  all.check_elements();
  reserve_all({});
  const auto reserved = all.capacities();
  reserve_all({{all.numbers, 1}, {all.points, 0}, {all.rows, 10'000}});
  CHECK(all.capacities() == reserved);
}

TEST_CASE("reserve_all: makes the calls of one reserve each" * needs_virtual_memory) {
  three_vectors single;
  const calls_of of_single{chunk_functions};
  single.numbers.reserve(2'000'000);
  single.points.reserve(1'000'000);
  single.rows.reserve(10'000);
  const std::uint64_t expected = of_single.count();
  three_vectors all;
  const calls_of of_all{chunk_functions};
  reserve_all({{all.numbers, 2'000'000}, {all.points, 1'000'000}, {all.rows, 10'000}});
  // Each vector has a reservation of its own, which no call for rights can reach beyond.
  CHECK(of_all.count() <= expected);
}

TEST_CASE("reserve_all: one that cannot be leaves no other grown" * needs_virtual_memory) {
  three_vectors all;
  const std::size_t too_many = second_device.total_memory() / sizeof(element12) + 1;
  CHECK_THROWS_AS(
      reserve_all({{all.numbers, 2'000'000}, {all.rows, 10'000}, {all.points, too_many}}),
      out_of_memory);
  CHECK(all.capacities() == all.before);
  all.check_elements();
  CHECK_THROWS_AS(
      reserve_all({{all.numbers, 2'000'000}, {all.rows, std::numeric_limits<std::size_t>::max()}}),
      std::length_error);
  CHECK(all.capacities() == all.before);
  // The same vector twice.
  CHECK_THROWS_AS(
      reserve_all({{all.numbers, 2'000'000}, {all.numbers, 4'000'000}, {all.points, too_many}}),
      out_of_memory);
  CHECK(all.capacities() == all.before);
  all.numbers.resize(3'000'000, 5, all.stream);
  CHECK(all.numbers.back_element(all.stream) == 5);
}

TEST_CASE("reserve_all: a call of HIP that fails leaves every capacity as it was" *
          needs_virtual_memory) {
  fault_sweep{"reserve_all"}.run<three_vectors>(
      [](auto& all) {
        reserve_all({{all.numbers, 2'000'000}, {all.points, 1'000'000}, {all.rows, 10'000}});
      },
      [](auto& all) {
        CHECK(all.capacities() == all.before);
        all.check_elements();
      },
      [](auto& all) {
        CHECK(all.rows.capacity() >= 10'000);
        all.check_elements();
      });
}

}  // namespace
}  // namespace hipvmm::test
