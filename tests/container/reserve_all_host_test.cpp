// SPDX-License-Identifier: MIT
#include <hipvmm/container/reserve_all.hpp>

#include "container/container_test.hpp"
#include "support/host/host_test.hpp"
#include "support/process/forked_child.hpp"

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

TEST_CASE_FIXTURE(three_vectors, "reserve_all: makes room in vectors of any element types") {
  reserve_all({{numbers, 2'000'000}, {points, 1'000'000}, {rows, 10'000}});
  CHECK(numbers.capacity() >= 2'000'000);
  CHECK(points.capacity() >= 1'000'000);
  CHECK(rows.capacity() >= 10'000);
  check_elements();
  reserve_all({});
  const auto reserved = capacities();
  reserve_all({{numbers, 1}, {points, 0}, {rows, 10'000}});
  CHECK(capacities() == reserved);
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

TEST_CASE_FIXTURE(three_vectors,
                  "reserve_all: one that cannot be leaves no other grown" * needs_virtual_memory) {
  const std::size_t too_many = second_device.total_memory() / sizeof(element12) + 1;
  CHECK_THROWS_AS(reserve_all({{numbers, 2'000'000}, {rows, 10'000}, {points, too_many}}),
                  out_of_memory);
  CHECK(capacities() == before);
  check_elements();
  CHECK_THROWS_AS(
      reserve_all({{numbers, 2'000'000}, {rows, std::numeric_limits<std::size_t>::max()}}),
      std::length_error);
  CHECK(capacities() == before);
  // The same vector twice.
  CHECK_THROWS_AS(reserve_all({{numbers, 2'000'000}, {numbers, 4'000'000}, {points, too_many}}),
                  out_of_memory);
  CHECK(capacities() == before);
  numbers.resize(3'000'000, 5, stream);
  CHECK(numbers.back_element(stream) == 5);
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

TEST_CASE("reserve_all: a child of fork() is refused without a call of HIP") {
  if (on_fallback()) return;
  growable_device_vector<int> one{first_device};
  growable_device_vector<int> another{first_device};
  CHECK(succeeds_in_forked_child([&] {
    const call_counter calls{nullptr};
    try {
      reserve_all({{one, 1000}, {another, 1000}});
    } catch (const unsupported&) {
      return calls.count() == 0;
    }
    return false;
  }));
}

}  // namespace
}  // namespace hipvmm::test
