// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("growable_device_vector: is neither copied nor of throwing moves") {
  CHECK_FALSE(std::is_copy_constructible_v<vector_of_8>);
  CHECK_FALSE(std::is_copy_assignable_v<vector_of_8>);
  CHECK(std::is_nothrow_move_constructible_v<vector_of_8>);
  CHECK(std::is_nothrow_move_assignable_v<vector_of_8>);
  CHECK(std::is_nothrow_swappable_v<vector_of_8>);
}

TEST_CASE("growable_device_vector: a new one is empty and has addresses") {
  const vector_of_8 vector;
  CHECK(vector.empty());
  CHECK(vector.size() == 0);
  CHECK(vector.capacity() == 0);
  CHECK((vector.data() != nullptr) == vector.is_address_stable());
  CHECK(vector.device() == first_device);
  CHECK(vector.statistics().chunks == 0);
}

TEST_CASE("growable_device_vector: reserves the device's total memory unless told otherwise") {
  CHECK(vector_of_8{}.max_size() >= first_device.total_memory() / sizeof(element8));
  const growth_options options{.max_bytes = 64 * MiB};
  CHECK(vector_of_8{first_device, options}.max_size() == 64 * MiB / sizeof(element8));
}

TEST_CASE("growable_device_vector: an unknown device throws invalid_argument") {
  CHECK_THROWS_AS(vector_of_8{device_ref{device_count()}}, std::invalid_argument);
}

TEST_CASE("growable_device_vector: lies on the current device unless told otherwise") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  const scoped_device scope{device_ref{1}};
  CHECK(vector_of_8{}.device() == device_ref{1});
  CHECK(vector_of_8{first_device}.device() == first_device);
}

TEST_CASE("growable_device_vector: data stays the same while it grows to its maximum" *
          needs_virtual_memory) {
  const stream stream;
  vector_of_8 vector{first_device, {.max_bytes = 64 * MiB}};
  const element8* const data = vector.data();
  while (vector.size() < vector.max_size()) {
    vector.resize_uninitialized(std::min(vector.size() * 2 + 1000, vector.max_size()));
    CHECK(vector.data() == data);
  }
  CHECK(vector.capacity() == vector.max_size());
  CHECK(vector.statistics().base_moves == 0);
}

TEST_CASE("growable_device_vector: reserve adds no slack and changes no size") {
  vector_of_8 vector;
  const std::size_t step = std::max(2 * MiB, capability_of(first_device).recommended_granularity());
  vector.reserve(40 * step / sizeof(element8));
  CHECK(vector.empty());
  CHECK(vector.capacity() == 40 * step / sizeof(element8));
  vector.reserve(40 * step / sizeof(element8) + 1);
  CHECK(vector.capacity() == 41 * step / sizeof(element8));
}

TEST_CASE("growable_device_vector: reserve of less than there is changes nothing") {
  vector_of_8 vector;
  vector.reserve(4 * MiB / sizeof(element8));
  const growth_statistics before = vector.statistics();
  vector.reserve(1);
  vector.reserve(0);
  CHECK(vector.capacity() == 4 * MiB / sizeof(element8));
  CHECK(vector.statistics().growth_steps == before.growth_steps);
}

TEST_CASE("growable_device_vector: a step limit of zero makes every step exact") {
  vector_of_8 vector{first_device, {.step_limit = 0}};
  const std::size_t step = std::max(2 * MiB, capability_of(first_device).recommended_granularity());
  for (std::size_t steps = 1; steps <= 40; ++steps) {
    vector.resize_uninitialized(steps * step / sizeof(element8));
    CHECK(vector.capacity() == vector.size());
  }
}

TEST_CASE("growable_device_vector: every step is a multiple of the granule asked for") {
  vector_of_8 vector{first_device, {.granule_bytes = 8 * granule()}};
  vector.resize_uninitialized(1);
  CHECK(vector.capacity() * sizeof(element8) == 8 * granule());
}

TEST_CASE("growable_device_vector: a granule off the granularity throws and is named") {
  const growth_options options{.granule_bytes = granule() + 1};
  CHECK_THROWS_WITH_AS((vector_of_8{first_device, options}),
                       doctest::Contains(std::to_string(granule() + 1).c_str()),
                       std::invalid_argument);
}

TEST_CASE("growable_device_vector: statistics count steps, chunks and the peak" *
          needs_virtual_memory) {
  const stream stream;
  vector_of_8 vector;
  const std::size_t step = std::max(2 * MiB, capability_of(first_device).recommended_granularity());
  vector.reserve(step / sizeof(element8));
  vector.reserve(3 * step / sizeof(element8));
  CHECK(vector.statistics().growth_steps == 2);
  CHECK(vector.statistics().chunks == 2);
  CHECK(vector.statistics().peak_bytes == 3 * step);
  vector.clear();
  vector.shrink_to_fit(stream);
  CHECK(vector.statistics().chunks == 0);
  CHECK(vector.statistics().peak_bytes == 3 * step);
}

TEST_CASE(
    "growable_device_vector: those that have ended leave their share of addresses to others") {
  const std::size_t alone = growable_device_vector<int>{}.max_size();
  for (int turn = 0; turn < 100; ++turn) {
    const growable_device_vector<int> ends;
    growable_device_vector<int> source;
    const growable_device_vector<int> moved{std::move(source)};
  }
  CHECK(growable_device_vector<int>{}.max_size() == alone);
}

TEST_CASE_TEMPLATE("growable_device_vector: sizes beyond the address space throw length_error", T,
                   element<1>, element<3>, element<8>, element<100>) {
  constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();
  const stream stream;
  growable_device_vector<T> vector;
  vector.resize(10, stream);
  const std::size_t capacity = vector.capacity();
  for (const std::size_t count :
       {largest, largest - 1, largest / 2 + 1, largest / sizeof(T), largest / sizeof(T) - 1}) {
    CHECK_THROWS_AS(vector.reserve(count), std::length_error);
    CHECK_THROWS_AS(vector.resize(count, stream), std::length_error);
    CHECK_THROWS_AS(vector.resize(count, T{}, stream), std::length_error);
    CHECK_THROWS_AS(vector.resize_uninitialized(count), std::length_error);
    CHECK_THROWS_AS(vector.assign(count, T{}, stream), std::length_error);
  }
  CHECK(vector.size() == 10);
  CHECK(vector.capacity() == capacity);
}

TEST_CASE("growable_device_vector: a max_bytes beyond the address space is named") {
  const growth_options options{.max_bytes = std::numeric_limits<std::size_t>::max()};
  CHECK_THROWS_WITH_AS(growable_device_vector<char>(first_device, options),
                       doctest::Contains("growth_options::max_bytes is 18446744073709551615"),
                       std::length_error);
}

TEST_CASE("growable_device_vector: addresses that no reservation has throw out_of_memory" *
          needs_virtual_memory) {
  vector_of_8 vector;
  const element8* const data = vector.data();
  vector.resize_uninitialized(10);
  // Just below the counts that length_error refuses: far too many for any process to reserve.
  const auto count =
      static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(element8);
  const auto error = thrown_by<out_of_memory>([&] { vector.reserve(count); });
  CHECK(error.resource() == exhausted::addresses);
  CHECK(vector.size() == 10);
  CHECK(vector.data() == data);
}

TEST_CASE("growable_device_vector: many live at once") {
  const stream stream;
  std::vector<vector_of_8> vectors(64);
  for (std::size_t index = 0; index < vectors.size(); ++index)
    vectors[index].append(series<element8>(index, 10), stream);
  for (std::size_t index = 0; index < vectors.size(); ++index)
    CHECK(vectors[index].copy_to_host(stream) == series<element8>(index, 10));
}

}  // namespace
}  // namespace hipvmm::test
