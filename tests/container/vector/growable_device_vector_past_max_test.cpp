// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/address_reservation.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

/// A vector that reserved 8 MiB, and a blocker that keeps it from growing in place.
struct small_vector {
  hipvmm::stream stream;
  growable_device_vector<element8> vector;
  address_reservation blocker;
  // Otherwise memory of somebody else is behind it, which may go at any time.
  bool is_blocked;

  explicit small_vector(past_max_size past_max = past_max_size::move)
      : vector{first_device, options(past_max)},
        blocker{block_addresses_at(vector.data() + vector.max_size())},
        is_blocked{on_fallback() || blocker.get() == vector.data() + vector.max_size()} {
    vector.append(series<element8>(0, 1000), stream);
  }
  static growth_options options(past_max_size past_max) {
    return growth_options{.max_bytes = align_up(8 * MiB, granule()), .past_max = past_max};
  }
  void check_moves(std::size_t expected) const {
    const std::size_t moves = vector.statistics().base_moves;
    CHECK((moves == expected || (moves == 0 && !is_blocked)));
  }
  void check_contents() {
    std::vector<element8> read(1000);
    vector.copy_to_host(read.data(), 1000, stream);
    CHECK(read == series<element8>(0, 1000));
  }
};

TEST_CASE("growable_device_vector: past its maximum it moves, once, and keeps its elements") {
  small_vector subject;
  const std::size_t old_max = subject.vector.max_size();
  const element8* const old_data = subject.vector.data();
  subject.vector.resize_uninitialized(old_max + 1);
  CHECK(subject.vector.size() == old_max + 1);
  CHECK(subject.vector.max_size() > old_max);
  CHECK((subject.vector.data() != old_data || !subject.is_blocked));
  subject.check_moves(1);
  subject.check_contents();
}

TEST_CASE("growable_device_vector: after a move it has room to grow in place") {
  small_vector subject;
  const std::size_t old_max = subject.vector.max_size();
  subject.vector.resize_uninitialized(old_max + 1);
  const element8* const data = subject.vector.data();
  CHECK(subject.vector.max_size() >= 2 * old_max);
  subject.vector.resize_uninitialized(2 * old_max);
  CHECK((subject.vector.data() == data) == subject.vector.is_address_stable());
  subject.check_moves(on_fallback() ? 2 : 1);
}

TEST_CASE("growable_device_vector: an append of its own elements follows the move") {
  small_vector subject;
  auto& vector = subject.vector;
  vector.resize(vector.max_size() - 1, numbered<element8>(7), subject.stream);
  vector.append_from_device(vector.span().first(1000), subject.stream);
  subject.check_moves(on_fallback() ? 2 : 1);
  subject.check_contents();
  std::vector<element8> tail(1000);
  copy(subject.stream, tail.data(), vector.end() - 1000, 1000 * sizeof(element8));
  CHECK(tail == series<element8>(0, 1000));
}

TEST_CASE("growable_device_vector: an append of its own last element follows the move") {
  small_vector subject;
  auto& vector = subject.vector;
  vector.resize(vector.max_size(), numbered<element8>(7), subject.stream);
  const std::size_t last = vector.size() - 1;
  vector.set_element(last, numbered<element8>(9), subject.stream);
  vector.append_from_device(vector.span().subspan(last, 1), subject.stream);
  subject.check_moves(on_fallback() ? 2 : 1);
  CHECK(vector.size() == last + 2);
  CHECK(vector.element(last, subject.stream) == numbered<element8>(9));
  CHECK(vector.element(last + 1, subject.stream) == numbered<element8>(9));
}

TEST_CASE("growable_device_vector: every member that grows may pass the maximum") {
  const stream stream;
  const auto check_moves = [&](auto grow) {
    small_vector subject;
    subject.vector.resize_uninitialized(subject.vector.max_size());
    grow(subject.vector);
    subject.check_moves(on_fallback() ? 2 : 1);
    subject.check_contents();
  };
  check_moves([&](vector_of_8& v) { v.push_back(numbered<element8>(1), stream); });
  check_moves([&](vector_of_8& v) { v.append(series<element8>(0, 2), stream); });
  check_moves([&](vector_of_8& v) { v.reserve(v.max_size() + 1); });
  check_moves([&](vector_of_8& v) { v.resize(v.max_size() + 1, stream); });
  check_moves([&](vector_of_8& v) { v.resize(v.max_size() + 1, numbered<element8>(1), stream); });
}

TEST_CASE("growable_device_vector: where moving is refused it throws length_error and stays") {
  small_vector subject{past_max_size::refuse};
  auto& vector = subject.vector;
  const element8* const data = vector.data();
  const std::size_t capacity = vector.capacity();
  const std::size_t past = vector.max_size() + 1;
  CHECK_THROWS_AS(vector.reserve(past), std::length_error);
  CHECK_THROWS_AS(vector.resize_uninitialized(past), std::length_error);
  CHECK_THROWS_AS(vector.resize(past, subject.stream), std::length_error);
  CHECK_THROWS_WITH_AS(vector.reserve(past), doctest::Contains("8.00 MiB"), std::length_error);
  CHECK(vector.data() == data);
  CHECK(vector.size() == 1000);
  CHECK(vector.capacity() == capacity);
  CHECK(vector.statistics().base_moves == 0);
  subject.check_contents();
}

TEST_CASE("growable_device_vector: where moving is refused all of the maximum can be used") {
  small_vector subject{past_max_size::refuse};
  subject.vector.resize_uninitialized(subject.vector.max_size());
  CHECK(subject.vector.capacity() == subject.vector.max_size());
  CHECK_THROWS_AS(subject.vector.push_back(numbered<element8>(1), subject.stream),
                  std::length_error);
  CHECK(subject.vector.size() == subject.vector.max_size());
}

TEST_CASE("growable_device_vector: it can pass one maximum after another") {
  small_vector subject;
  auto& vector = subject.vector;
  for (int passed = 0; passed < 3; ++passed) {
    const void* const end = vector.data() + vector.max_size();
    const address_reservation blocker = block_addresses_at(end);
    const auto moves = vector.statistics().base_moves;
    vector.resize_uninitialized(vector.max_size() + 1);
    // A wish for addresses may be ignored, and then there may be room to grow in place.
    if (blocker.get() == end) CHECK(vector.statistics().base_moves == moves + 1);
    subject.check_contents();
  }
}

}  // namespace
}  // namespace hipvmm::test
