// SPDX-License-Identifier: MIT
// erase_front: windows and queues.
#include <hipvmm/container/device_appender.hpp>
#include "container/container_test.hpp"
#include "support/captures.hpp"
#include "support/region/prefetch_levels.hpp"

namespace hipvmm::test {
namespace {

// Some of these elements reach across the end of a granule.
std::size_t per_granule() { return granule() / sizeof(element300); }

/// Steps of one granule each in a reservation of `granules`.
growth_options by_granules(std::size_t granules, past_max_size past_max = past_max_size::move) {
  return growth_options{.max_bytes = granules * granule(),
                        .past_max = past_max,
                        .step_limit = 0,
                        .granule_bytes = granule()};
}

/// A vector of three granules and a bit, appended in steps, so that each granule is a chunk.
struct queue {
  hipvmm::stream stream;
  growable_device_vector<element300> vector;
  const std::size_t count = 3 * per_granule() + 5;

  explicit queue(const growth_options& options = by_granules(16)) : vector{first_device, options} {
    for (std::size_t at = 0; at < count; at += per_granule())
      vector.append(series<element300>(at, std::min(per_granule(), count - at)), stream);
    stream.synchronize();
  }
  void check(std::size_t first, std::size_t end) const {
    CHECK(vector.size() == end - first);
    CHECK(vector.copy_to_host(stream) == series<element300>(first, end - first));
  }
};

TEST_CASE_FIXTURE(queue, "growable_device_vector: erase_front moves no element") {
  const element300* const data = vector.data();
  const std::size_t max_size = vector.max_size();
  for (const std::size_t erased : {std::size_t{1}, per_granule(), 2 * per_granule() + 7, count}) {
    vector.erase_front(erased - static_cast<std::size_t>(vector.data() - data), stream);
    CHECK(vector.data() == data + erased);
    CHECK(vector.max_size() == max_size - erased);
    check(erased, count);
  }
  CHECK(vector.statistics().base_moves == 0 + (on_fallback() ? 3 : 0));
  CHECK(vector.statistics().growth_steps == 4);
}

TEST_CASE("growable_device_vector: one at an address for life begins there again once empty") {
  growth_options options = by_granules(16, past_max_size::refuse);
  for (const without_vmm fallback : {without_vmm::use_hip_malloc, without_vmm::always}) {
    options.fallback = fallback;
    queue one{options};
    const element300* const data = one.vector.data();
    const std::size_t max_size = one.vector.max_size();
    one.vector.erase_front(1, one.stream);
    one.vector.erase_front(one.count - 1, one.stream);
    CHECK(one.vector.max_size() == max_size);
    one.vector.append(series<element300>(0, one.count), one.stream);
    CHECK(one.vector.data() == data);
    one.check(0, one.count);
  }
}

TEST_CASE_FIXTURE(queue, "growable_device_vector: erase_front of nothing changes nothing") {
  const element300* const data = vector.data();
  vector.erase_front(0, stream);
  CHECK(vector.data() == data);
  check(0, count);
  growable_device_vector<element300> empty;
  CHECK_NOTHROW(empty.erase_front(0, stream));
  CHECK_THROWS_AS(empty.erase_front(1, stream), std::out_of_range);
}

TEST_CASE_FIXTURE(queue, "growable_device_vector: erase_front of more than all throws") {
  const element300* const data = vector.data();
  CHECK_THROWS_WITH_AS(vector.erase_front(count + 1, stream),
                       doctest::Contains(std::to_string(count + 1).c_str()), std::out_of_range);
  CHECK(vector.data() == data);
  check(0, count);
}

TEST_CASE_FIXTURE(queue, "growable_device_vector: erase_front releases whole chunks but the last" *
                             needs_virtual_memory) {
  REQUIRE(vector.statistics().chunks == 4);
  vector.erase_front(per_granule(), stream);  // a bit of the first granule stays
  CHECK(vector.statistics().chunks == 4);
  vector.erase_front(1, stream);
  CHECK(vector.statistics().chunks == 3);
  vector.erase_front(vector.size(), stream);
  CHECK(vector.statistics().chunks == 1);
  CHECK(vector.capacity() == (4 * granule() - count * sizeof(element300)) / sizeof(element300));
  vector.append(series<element300>(0, 50), stream);
  CHECK(vector.copy_to_host(stream) == series<element300>(0, 50));
  growable_device_vector<element<4>> full{first_device, by_granules(4)};
  full.resize(granule() / 4, stream);
  full.erase_front(granule() / 4, stream);
  CHECK(full.capacity() == 0);
  CHECK(full.statistics().chunks == 1);
}

TEST_CASE_FIXTURE(queue,
                  "growable_device_vector: shrink_to_fit of one erased to the end begins "
                  "at the first address again") {
  const element300* const data = vector.data();
  vector.erase_front(count, stream);
  CHECK(vector.shrink_to_fit(stream) != 0);
  CHECK(vector.capacity() == 0);
  CHECK(vector.statistics().chunks == 0);
  if (!on_fallback()) CHECK(vector.data() == data);
  vector.append(series<element300>(5, 2 * per_granule()), stream);
  CHECK(vector.copy_to_host(stream) == series<element300>(5, 2 * per_granule()));
}

TEST_CASE_FIXTURE(queue, "growable_device_vector: shrink_to_fit that replaces keeps what is left") {
  vector.erase_front(2 * per_granule() + 7, stream);
  vector.reserve(8 * per_granule());
  vector.shrink_to_fit(stream, tail_chunk::replace);
  CHECK(vector.capacity() * sizeof(element300) <= 2 * granule());
  check(2 * per_granule() + 7, count);
}

TEST_CASE("growable_device_vector: a queue of any length stays in a small reservation") {
  const stream stream;
  growable_device_vector<element300> vector{first_device, by_granules(8)};
  const std::size_t step = per_granule() / 3;
  std::size_t first = 0;
  std::size_t end = 0;
  for (int round = 0; round < 150; ++round) {
    const std::uint64_t moves = vector.statistics().base_moves;
    vector.append(series<element300>(end, step), stream);
    end += step;
    if (vector.statistics().base_moves != moves) REQUIRE(vector.max_size() >= 4 * per_granule());
    if (round % 50 == 49)
      REQUIRE(vector.copy_to_host(stream) == series<element300>(first, end - first));
    if (vector.size() < 3 * per_granule()) continue;
    vector.erase_front(2 * step, stream);
    first += 2 * step;
  }
  CHECK(vector.copy_to_host(stream) == series<element300>(first, end - first));
  // 50 granules went through: the reservation was renewed a few times and never grew.
  const growth_statistics seen = vector.statistics();
  CHECK(vector.max_size() <= 8 * granule() / sizeof(element300));
  CHECK(seen.base_moves >= 5);
  if (on_fallback()) return;
  CHECK(seen.copied_bytes == 0);
  CHECK(seen.base_moves <= 15);
  CHECK(seen.chunks <= 4);
  CHECK(seen.peak_bytes <= 5 * granule());
}

TEST_CASE("growable_device_vector: a queue that fills its reservation gets a larger one") {
  const stream stream;
  growable_device_vector<element300> vector{first_device, by_granules(4)};
  vector.append(series<element300>(0, 3 * per_granule()), stream);
  vector.erase_front(per_granule() / 2, stream);
  // Too little is free in front for as much to be free behind after a move.
  vector.append(series<element300>(3 * per_granule(), 2 * per_granule()), stream);
  CHECK(vector.copy_to_host(stream) ==
        series<element300>(per_granule() / 2, 5 * per_granule() - per_granule() / 2));
  CHECK(vector.max_size() >= 6 * per_granule());
}

TEST_CASE("growable_device_vector: one growth beyond all that a queue has reserved") {
  const stream stream;
  growable_device_vector<element300> vector{first_device, by_granules(4)};
  for (std::size_t at = 0; at < 4; ++at)
    vector.append(series<element300>(at * (per_granule() - 1), per_granule() - 1), stream);
  vector.erase_front(3 * per_granule(), stream);
  vector.resize(20 * per_granule(), stream);
  std::vector<element300> expected = series<element300>(3 * per_granule(), per_granule() - 4);
  expected.resize(20 * per_granule());
  CHECK(vector.copy_to_host(stream) == expected);
}

TEST_CASE("growable_device_vector: past_max_size::refuse refuses erased addresses too") {
  const stream stream;
  growable_device_vector<element300> vector{first_device, by_granules(4, past_max_size::refuse)};
  vector.append(series<element300>(0, 3 * per_granule()), stream);
  const element300* const data = vector.data();
  vector.erase_front(2 * per_granule(), stream);
  CHECK(vector.max_size() == 4 * granule() / sizeof(element300) - 2 * per_granule());
  CHECK_NOTHROW(vector.reserve(vector.max_size()));
  CHECK_THROWS_AS(vector.reserve(vector.max_size() + 1), std::length_error);
  CHECK(vector.data() == data + 2 * per_granule());
  CHECK(vector.copy_to_host(stream) == series<element300>(2 * per_granule(), per_granule()));
}

TEST_CASE("growable_device_vector: past_max_size::refuse keeps data() when all is released") {
  const stream stream;
  for (const std::size_t erased : {per_granule() / 2, per_granule(), 2 * per_granule() + 7}) {
    growable_device_vector<element300> vector{first_device, by_granules(4, past_max_size::refuse)};
    vector.append(series<element300>(0, 2 * per_granule() + 7), stream);
    vector.erase_front(erased, stream);
    const element300* const data = vector.data();
    const std::size_t room = vector.max_size();
    vector.clear();
    for (const tail_chunk tail : {tail_chunk::keep, tail_chunk::replace}) {
      vector.shrink_to_fit(stream, tail);
      CHECK(vector.data() == data);
      CHECK(vector.max_size() == room);
      CHECK(vector.statistics().base_moves == 0);
    }
    vector.append(series<element300>(5, 10), stream);
    CHECK(vector.data() == data);
    CHECK(vector.copy_to_host(stream) == series<element300>(5, 10));
  }
}

TEST_CASE("growable_device_vector: past_max_size::refuse lets a queue that is emptied begin again" *
          needs_virtual_memory) {
  const stream stream;
  growable_device_vector<element300> vector{first_device, by_granules(4, past_max_size::refuse)};
  vector.reserve(1);
  const element300* const data = vector.data();
  const std::size_t room = vector.max_size();
  for (int round = 0; round < 12; ++round) {
    const std::size_t count = round % 3 == 0 ? room : 2 * per_granule() + 7;
    vector.append(series<element300>(round, count), stream);
    CHECK(vector.copy_to_host(stream) == series<element300>(round, count));
    vector.erase_front(count / 2, stream);
    CHECK(vector.data() == data + count / 2);
    vector.erase_front(count - count / 2, stream);
    CHECK(vector.data() == data);
    CHECK(vector.max_size() == room);
  }
}

TEST_CASE_FIXTURE(queue,
                  "growable_device_vector: erase_front during a run of an appender is found") {
  device_appender<element300> appender{vector};
  static_cast<void>(appender.prepare(10, stream));
  vector.erase_front(1, stream);
  CHECK_THROWS_AS(static_cast<void>(appender.commit(stream)), std::logic_error);
  appender.discard();
  static_cast<void>(appender.prepare(10, stream));
  CHECK(appender.commit(stream).appended == 0);
  check(1, count);
}

TEST_CASE_FIXTURE(queue, "growable_device_vector: erase_front refuses a captured stream") {
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  CHECK_THROWS_AS(vector.erase_front(1, stream), std::invalid_argument);
  CHECK(end_capture_if_kept(stream.get()));
  check(0, count);
}

TEST_CASE("growable_device_vector: erase_front leaves the chunk that was made ahead" *
          needs_virtual_memory) {
  const stream stream;
  for (const prefetch_level how : both_ways) {
    growth_options options = by_granules(64);
    options.grow_ahead = {how, granule(), 2 * granule()};
    growable_device_vector<element300> vector{first_device, options};
    for (std::size_t round = 0; round < 3; ++round)
      vector.append(series<element300>(round * per_granule(), per_granule()), stream);
    detail::wait_for_background_tasks();
    const std::size_t ready = vector.statistics().ahead_bytes;
    REQUIRE(ready != 0);
    stream.synchronize();
    vector.erase_front(vector.size() - 1, stream);
    CHECK(vector.statistics().ahead_bytes == ready);
    const std::size_t hits = vector.statistics().ahead_hits;
    vector.reserve(vector.capacity() + 1);
    CHECK(vector.statistics().ahead_hits == hits + 1);
    vector.append(series<element300>(3 * per_granule(), 10), stream);
    CHECK(vector.copy_to_host(stream) == series<element300>(3 * per_granule() - 1, 11));
  }
}

}  // namespace
}  // namespace hipvmm::test
