// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "support/held_worker.hpp"
#include "support/region/prefetch_levels.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

using detail::wait_for_background_tasks;

/// Sixteen granules ahead, once fewer than eight are.
growth_options sixteen_ahead(prefetch_level how) {
  return growth_options{
      .max_bytes = 512 * MiB, .step_limit = 0, .grow_ahead = {how, 16 * MiB, 32 * MiB}};
}

TEST_CASE("growable_device_vector: without grow_ahead nothing is made ahead") {
  vector_of_granules vector;
  for (std::size_t count = 1; count <= 40; ++count) vector.resize_uninitialized(count);
  wait_for_background_tasks();
  CHECK(vector.statistics().ahead_bytes == 0);
  CHECK(vector.statistics().ahead_hits == 0);
  CHECK(vector.statistics().ahead_misses == 0);
}

TEST_CASE("growable_device_vector: growth has the next chunk made and the next growth takes it") {
  for (const prefetch_level how : both_ways) {
    vector_of_granules vector{first_device, sixteen_ahead(how)};
    wait_for_background_tasks();
    CHECK(vector.statistics().ahead_bytes == 0);
    vector.resize_uninitialized(4);
    wait_for_background_tasks();
    CHECK(vector.capacity() == 4);
    CHECK(vector.statistics().ahead_bytes == 32 * MiB);
    CHECK(vector.statistics().ahead_misses == 1);
    // Prepared memory is held too.
    CHECK(vector.statistics().peak_bytes == 40 * MiB);

    vector.resize_uninitialized(5);
    wait_for_background_tasks();
    CHECK(vector.capacity() == 20);
    CHECK(vector.statistics().ahead_hits == 1);
    CHECK(vector.statistics().ahead_misses == 1);
    CHECK(vector.statistics().ahead_bytes == 0);
    CHECK(vector.statistics().growth_steps == 2);

    // Eight unused granules are the watermark.
    vector.resize_uninitialized(12);
    wait_for_background_tasks();
    CHECK(vector.statistics().ahead_bytes == 0);
    vector.resize_uninitialized(13);
    wait_for_background_tasks();
    CHECK(vector.capacity() == 20);
    CHECK(vector.statistics().ahead_bytes == 18 * MiB);
    CHECK(vector.statistics().ahead_failures == 0);
  }
}

TEST_CASE("growable_device_vector: elements in memory made ahead are as any others") {
  const stream stream;
  for (const prefetch_level how : both_ways) {
    growable_device_vector<element12> vector{first_device, sixteen_ahead(how)};
    const auto* const data = vector.data();
    const std::vector<element12> block = series<element12>(0, 100'000);
    std::vector<element12> expected;
    for (int round = 0; round < 36; ++round) {
      vector.append(block, stream);
      expected.insert(expected.end(), block.begin(), block.end());
      if (round % 3 != 0) wait_for_background_tasks();
    }
    CHECK(vector.data() == data);
    CHECK(vector.copy_to_host(stream) == expected);
    CHECK(vector.statistics().ahead_hits > 0);
  }
}

TEST_CASE("growable_device_vector: a growth beyond what is ready makes the rest") {
  for (const prefetch_level how : both_ways) {
    vector_of_granules vector{first_device, sixteen_ahead(how)};
    vector.resize_uninitialized(4);
    wait_for_background_tasks();
    vector.resize_uninitialized(30);
    CHECK(vector.capacity() == 30);
    CHECK(vector.statistics().chunks == 3);
    CHECK(vector.statistics().ahead_misses == 2);
    CHECK(vector.statistics().ahead_hits == 0);
  }
}

TEST_CASE("growable_device_vector: growth itself makes the chunk that no one has begun") {
  vector_of_granules vector{first_device, sixteen_ahead(prefetch_level::mapped)};
  const held_worker held;
  vector.resize_uninitialized(4);
  CHECK(vector.capacity() == 4);
  vector.resize_uninitialized(5);
  CHECK(vector.capacity() == 20);
  CHECK(vector.statistics().chunks == 2);
  vector.resize_uninitialized(16);
  vector.resize_uninitialized(50);
  CHECK(vector.capacity() == 50);
  CHECK(vector.statistics().chunks == 3);
  CHECK(vector.statistics().ahead_misses == 3);
  CHECK(vector.statistics().ahead_hits == 0);
}

TEST_CASE("growable_device_vector: reserve takes what is ready and has nothing made") {
  vector_of_granules vector{first_device, sixteen_ahead(prefetch_level::mapped)};
  vector.reserve(4);
  wait_for_background_tasks();
  CHECK(vector.capacity() == 4);
  CHECK(vector.statistics().ahead_bytes == 0);
  vector.resize_uninitialized(4);
  wait_for_background_tasks();
  CHECK(vector.statistics().ahead_bytes == 32 * MiB);
  vector.reserve(6);
  wait_for_background_tasks();
  CHECK(vector.capacity() == 20);
  CHECK(vector.statistics().ahead_bytes == 0);
}

TEST_CASE("growable_device_vector: nothing is made ahead of an empty vector") {
  vector_of_granules vector{first_device, sixteen_ahead(prefetch_level::mapped)};
  vector.resize_uninitialized(0);
  vector.reserve(1);
  vector.resize_uninitialized(0);
  wait_for_background_tasks();
  CHECK(vector.statistics().ahead_bytes == 0);
}

TEST_CASE("growable_device_vector: nothing is made ahead past the maximum") {
  for (const prefetch_level how : both_ways) {
    growth_options small = sixteen_ahead(how);
    small.max_bytes = 20 * MiB;
    vector_of_granules vector{first_device, small};
    vector.resize_uninitialized(8);
    wait_for_background_tasks();
    CHECK(vector.statistics().ahead_bytes == 4 * MiB);
    vector.resize_uninitialized(9);
    CHECK(vector.capacity() == 10);
    wait_for_background_tasks();
    CHECK(vector.statistics().ahead_bytes == 0);
    vector.resize_uninitialized(11);
    CHECK(vector.capacity() >= 11);
    CHECK(vector.max_size() > 10);
  }
}

TEST_CASE("growable_device_vector: shrink_to_fit releases what is ready, too") {
  const stream stream;
  vector_of_granules vector{first_device, sixteen_ahead(prefetch_level::mapped)};
  vector.resize_uninitialized(4);
  wait_for_background_tasks();
  CHECK(vector.statistics().ahead_bytes == 32 * MiB);
  vector.shrink_to_fit(stream);
  wait_for_background_tasks();
  CHECK(vector.statistics().ahead_bytes == 0);
  CHECK(vector.capacity() == 4);
}

TEST_CASE("growable_device_vector: a clone has the policy and not the memory") {
  const stream stream;
  vector_of_granules vector{first_device, sixteen_ahead(prefetch_level::mapped)};
  vector.resize(4, stream);
  wait_for_background_tasks();
  vector_of_granules copied = vector.clone(stream);
  wait_for_background_tasks();
  CHECK(copied.statistics().ahead_bytes == 0);
  copied.resize_uninitialized(5);
  wait_for_background_tasks();
  CHECK(copied.statistics().ahead_bytes == 32 * MiB);
  CHECK(vector.statistics().ahead_bytes == 32 * MiB);
}

TEST_CASE("growable_device_vector: moves, swaps and destruction take preparations along") {
  const stream stream;
  for (const prefetch_level how : both_ways) {
    growable_device_vector<element12> first{first_device, sixteen_ahead(how)};
    growable_device_vector<element12> second{first_device, sixteen_ahead(how)};
    {
      growable_device_vector<element12> dying{first_device, sixteen_ahead(how)};
      growable_device_vector<element12> overwritten{first_device, sixteen_ahead(how)};
      std::optional<held_worker> held{std::in_place};
      first.append(series<element12>(0, 100), stream);
      second.append(series<element12>(100, 100), stream);
      dying.append(series<element12>(200, 100), stream);
      overwritten.append(series<element12>(300, 100), stream);
      swap(first, second);
      overwritten = std::move(second);
      second.append(series<element12>(400, 100), stream);
      held.reset();
      second = std::move(overwritten);
    }
    wait_for_background_tasks();
    CHECK(first.statistics().ahead_bytes == 32 * MiB);
    CHECK(second.statistics().ahead_bytes == 32 * MiB);
    CHECK(first.copy_to_host(stream) == series<element12>(100, 100));
    CHECK(second.copy_to_host(stream) == series<element12>(0, 100));
    growable_device_vector<element12> taken{std::move(first)};
    CHECK(first.statistics().ahead_bytes == 0);
    CHECK(taken.statistics().ahead_bytes == 32 * MiB);
  }
}

TEST_CASE("growable_device_vector: a peer may use memory made ahead of its grant, or behind it") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "peer of the first device");
  for (const prefetch_level how : both_ways) {
    vector_of_granules vector{first_device, sixteen_ahead(how)};
    vector.resize_uninitialized(4);
    wait_for_background_tasks();
    vector.grant(peer, access_right::read_write);
    vector.resize_uninitialized(20);
    CHECK(get_access(vector.data() + 19, peer) == access_right::read_write);
    wait_for_background_tasks();
    vector.resize_uninitialized(21);
    CHECK(get_access(vector.data() + 20, peer) == access_right::read_write);
    CHECK(vector.statistics().ahead_hits == 2);
    wait_for_background_tasks();
    vector.revoke(peer);
    vector.resize_uninitialized(vector.capacity() + 1);
    CHECK(get_access(vector.data() + vector.size() - 1, peer) == access_right::none);
  }
}

TEST_CASE("growable_device_vector: a watermark above its budget is refused") {
  growth_options wrong = sixteen_ahead(prefetch_level::mapped);
  wrong.grow_ahead.watermark_bytes = wrong.grow_ahead.budget_bytes + 1;
  CHECK_THROWS_AS((vector_of_granules{first_device, wrong}), std::invalid_argument);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
