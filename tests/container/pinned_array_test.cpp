// SPDX-License-Identifier: MIT
#include <hipvmm/container/pinned_array.hpp>

#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

static_assert(!std::is_copy_constructible_v<pinned_array<int>>);
static_assert(std::is_nothrow_move_constructible_v<pinned_array<int>>);

struct starts_at_seven {
  int value = 7;
};

struct throws_as_third {
  throws_as_third() {
    if (++made == 3) throw std::runtime_error{"the third"};
  }
  static inline int made = 0;
  int value = 0;
};

struct alignas(512) widely_aligned {
  int value;
};

TEST_CASE("pinned_array: elements are T{} and the host's") {
  pinned_array<int> numbers{100};
  CHECK(numbers.size() == 100);
  CHECK(std::count(numbers.begin(), numbers.end(), 0) == 100);
  std::iota(numbers.begin(), numbers.end(), 0);
  CHECK(numbers[99] == 99);
  CHECK(std::as_const(numbers).at(3) == 3);
  const pinned_array<starts_at_seven> sevens{10};
  CHECK(sevens[9].value == 7);
  const pinned_array<widely_aligned> aligned{3};
  CHECK(reinterpret_cast<std::uintptr_t>(aligned.data()) % 512 == 0);
}

TEST_CASE("pinned_array: one without elements has no memory") {
  const pinned_array<int> none;
  CHECK(none.empty());
  CHECK(none.data() == nullptr);
  const pinned_array<int> zero{0};
  CHECK(zero.data() == nullptr);
  CHECK_THROWS_AS(static_cast<void>(zero.at(0)), std::out_of_range);
}

TEST_CASE("pinned_array: bad sizes and resources throw") {
  CHECK_THROWS_AS(pinned_array<int>{std::numeric_limits<std::size_t>::max() / 2},
                  std::length_error);
  CHECK_THROWS_AS((pinned_array<int>{1, nullptr}), std::invalid_argument);
  mr::hip_resource of_device{first_device};
  CHECK_THROWS_AS((pinned_array<int>{1, &of_device}), std::invalid_argument);
}

TEST_CASE("pinned_array: an element that cannot be made costs no memory") {
  mr::pinned_host_resource pinned;
  mr::statistics_resource_adaptor counted{&pinned};
  throws_as_third::made = 0;
  CHECK_THROWS_AS((pinned_array<throws_as_third>{10, &counted}), std::runtime_error);
  CHECK(counted.get_bytes_counter().total == 10 * sizeof(throws_as_third));
  CHECK(counted.get_bytes_counter().value == 0);
}

TEST_CASE("pinned_array: a vector appends it, and copies write to it") {
  const stream stream;
  pinned_array<int> numbers{1000};
  std::iota(numbers.begin(), numbers.end(), 5);
  growable_device_vector<int> vector;
  vector.append(numbers, stream);
  pinned_array<int> back{1000};
  copy_async(stream, back.data(), vector.data(), back.size_bytes());
  stream.synchronize();
  CHECK(std::equal(back.begin(), back.end(), numbers.begin(), numbers.end()));
  numbers.reset(stream);
  CHECK(numbers.empty());
  numbers.reset(stream);
}

TEST_CASE("pinned_array: a move takes the elements along") {
  pinned_array<int> source{10};
  source[3] = 4;
  const int* const data = source.data();
  pinned_array<int> taken = std::move(source);
  CHECK(taken.data() == data);
  CHECK(source.empty());
  source = std::move(taken);
  CHECK(source[3] == 4);
  pinned_array<int> other{1};
  swap(other, source);
  CHECK(other.data() == data);
  CHECK(source.size() == 1);
  source = pinned_array<int>{};
  CHECK(source.empty());
}

}  // namespace
}  // namespace hipvmm::test
