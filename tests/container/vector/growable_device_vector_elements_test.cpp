// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE_TEMPLATE("growable_device_vector: elements cross the edges of chunks" *
                       needs_virtual_memory,
                   T, element<1>, element<3>, element<5>, element<12>, element<24>, element<100>) {
  const stream stream;
  growable_device_vector<T> vector;
  const std::size_t blocks = 3;
  const std::size_t count = 2 * MiB / sizeof(T) + 1;
  const std::vector<T> block = series<T>(0, 1000);
  for (std::size_t round = 0; round < blocks; ++round) {
    vector.resize_uninitialized((round + 1) * count - block.size());
    vector.append(block, stream);
  }
  CHECK(vector.statistics().chunks > 1);
  std::vector<T> read(block.size());
  for (std::size_t round = 0; round < blocks; ++round) {
    const std::size_t start = (round + 1) * count - block.size();
    copy(stream, read.data(), vector.data() + start, block.size() * sizeof(T));
    CHECK(read == block);
  }
}

constexpr auto numbered_four = numbered<element<4>>;
constexpr auto four_byte_series = series<element<4>>;

struct hundred_fours {
  hipvmm::stream stream;
  vector_of_4 vector;

  hundred_fours() { vector.append(four_byte_series(0, 100), stream); }
};

TEST_CASE("growable_device_vector: an index beyond the size throws out_of_range with both") {
  const stream stream;
  vector_of_4 vector;
  vector.append(four_byte_series(0, 7), stream);
  CHECK_THROWS_WITH_AS(static_cast<void>(vector.element(9, stream)), doctest::Contains("9"),
                       std::out_of_range);
  CHECK_THROWS_WITH_AS(static_cast<void>(vector.element(9, stream)), doctest::Contains("7"),
                       std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(vector.element(7, stream)), std::out_of_range);
  CHECK_THROWS_AS(vector.set_element(7, numbered_four(0), stream), std::out_of_range);
  CHECK_THROWS_AS(vector.set_element_async(7, numbered_four(0), stream), std::out_of_range);
  vector.clear();
  CHECK_THROWS_AS(vector.pop_back(), std::out_of_range);
}

TEST_CASE("growable_device_vector: set_element waits, set_element_async does not") {
  vector_of_4 vector;
  vector.resize_uninitialized(2);
  blocked_stream busy{first_device};
  vector.set_element_async(0, numbered_four(1), busy);
  CHECK_FALSE(busy.is_done());
  busy.release();
  vector.set_element(1, numbered_four(2), busy);
  CHECK(busy.is_done());
}

TEST_CASE_FIXTURE(
    hundred_fours,
    "growable_device_vector: copy_to_host reads the first elements into given memory") {
  std::vector<element<4>> target(60);
  vector.copy_to_host(target.data(), 50, stream);
  std::vector<element<4>> expected = four_byte_series(0, 50);
  expected.resize(60);
  CHECK(target == expected);
  CHECK_THROWS_AS(vector.copy_to_host(target.data(), 101, stream), std::out_of_range);
}

TEST_CASE_FIXTURE(hundred_fours,
                  "growable_device_vector: span and iterators name exactly the elements") {
  const auto& constant = vector;
  CHECK(vector.span().data() == vector.data());
  CHECK(vector.span().size() == 100);
  CHECK(constant.span().size() == 100);
  CHECK(vector.end() - vector.begin() == 100);
  CHECK(constant.cend() - constant.cbegin() == 100);
  CHECK(constant.begin() == vector.data());
}

TEST_CASE("growable_device_vector: values that are captured need not outlive the call") {
  using value = element<12>;
  const stream stream;
  growable_device_vector<value> vector;
  vector.reserve(10'000);
  vector.resize(2, stream);
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  auto gone = std::make_unique<value>(numbered<value>(1));
  vector.assign({*gone, numbered<value>(2)}, stream);
  vector.resize(5000, *gone, stream);
  vector.push_back(*gone, stream);
  vector.append({numbered<value>(3), *gone}, stream);
  vector.set_element_async(7, numbered<value>(4), stream);
  *gone = value{};
  gone.reset();
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(stream.get(), &graph) == hipSuccess);
  hipGraphExec_t runnable = nullptr;
  REQUIRE(hipGraphInstantiate(&runnable, graph, nullptr, nullptr, 0) == hipSuccess);
  CHECK(hipGraphLaunch(runnable, stream.get()) == hipSuccess);
  std::vector<value> expected(5003, numbered<value>(1));
  expected[1] = numbered<value>(2);
  expected[7] = numbered<value>(4);
  expected[5001] = numbered<value>(3);
  CHECK(vector.copy_to_host(stream) == expected);
  CHECK(hipGraphExecDestroy(runnable) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

}  // namespace
}  // namespace hipvmm::test
