// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <hipvmm/container/device_appender.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/event.hpp>
#include "kernels/append_kernels.hpp"
#include "kernels/kernels.hpp"
#include "support/device_memory.hpp"
#include "support/devices.hpp"

using namespace hipvmm;
using namespace hipvmm::test;

namespace {

constexpr unsigned threads = 1U << 20;

/// A vector of three elements, and how to append to it.
struct subject {
  stream order{first_device};
  growable_device_vector<unsigned> vector{first_device};
  device_appender<unsigned> appender{vector};

  subject() { vector.append({7U, 8U, 9U}, order); }

  /// The appended elements, sorted; the elements from before must still be there.
  [[nodiscard]] std::vector<unsigned> appended() const {
    std::vector<unsigned> found = vector.copy_to_host(order);
    REQUIRE(found.size() >= 3);
    CHECK(std::equal(found.begin(), found.begin() + 3, std::vector{7U, 8U, 9U}.begin()));
    found.erase(found.begin(), found.begin() + 3);
    std::sort(found.begin(), found.end());
    return found;
  }
};

std::vector<unsigned> hits(unsigned count, unsigned divisor) {
  std::vector<unsigned> result;
  for (unsigned i = 0; i < count; ++i)
    if (is_hit(i, divisor)) result.push_back(i);
  return result;
}

std::vector<unsigned> numbers(unsigned count) {
  std::vector<unsigned> result(count);
  std::iota(result.begin(), result.end(), 0U);
  return result;
}

}  // namespace

TEST_CASE("device_appender: a million threads with divergent predicates append each hit once") {
  for (const unsigned divisor : {1U, 2U, 3U, 31U, 1000U}) {
    CAPTURE(divisor);
    subject subject;
    const auto ref = subject.appender.prepare(threads, subject.order);
    REQUIRE(launch_append_hits(ref, threads, divisor, subject.order.get()) == 0);
    const std::vector<unsigned> expected = hits(threads, divisor);
    const append_result result = subject.appender.commit(subject.order);
    CHECK(result.appended == expected.size());
    CHECK(result.missed == 0);
    CHECK(subject.appended() == expected);
  }
}

TEST_CASE("device_appender: threads that make different numbers of rounds append each hit once") {
  subject subject;
  const auto ref = subject.appender.prepare(threads * loop_rounds, subject.order);
  REQUIRE(launch_append_in_loops(ref, threads, subject.order.get()) == 0);
  CHECK(subject.appender.commit(subject.order).missed == 0);
  std::vector<unsigned> expected;
  for (unsigned i = 0; i < threads; ++i)
    for (unsigned round = 0; round < i % loop_rounds; ++round)
      if (is_hit(i + round, 3)) expected.push_back(i);
  CHECK(subject.appended() == expected);
}

TEST_CASE("device_appender: an overflow is counted exactly, and the run that follows has room") {
  subject subject;
  auto ref = subject.appender.prepare(10, subject.order);
  REQUIRE(ref.capacity() < threads);
  REQUIRE(launch_append_hits(ref, threads, 1, subject.order.get()) == 0);
  append_result result = subject.appender.commit(subject.order);
  CHECK(result.appended == 0);
  CHECK(result.missed == threads);
  CHECK(subject.appended().empty());

  ref = subject.appender.prepare(result.missed, subject.order);
  REQUIRE(launch_append_hits(ref, threads, 1, subject.order.get()) == 0);
  CHECK(subject.appender.commit(subject.order).appended == threads);
  CHECK(subject.appended() == numbers(threads));
}

TEST_CASE("device_appender: kernels that remember what was missed append it in the next run") {
  subject subject;
  growable_device_vector<unsigned char> done{first_device};
  done.resize(threads, subject.order);
  const std::vector<unsigned> expected = hits(threads, 1);
  std::size_t room = 10;
  std::size_t appended = 0;
  int runs = 0;
  do {
    REQUIRE(++runs <= 2);
    const auto ref = subject.appender.prepare(room, subject.order);
    REQUIRE(launch_append_not_done(ref, threads, 1, done.data(), subject.order.get()) == 0);
    const append_result result = subject.appender.commit(subject.order, on_overflow::keep);
    if (result.missed != 0) CHECK(result.appended == ref.capacity());
    appended += result.appended;
    room = result.missed;
  } while (room != 0);
  CHECK(runs == 2);
  CHECK(appended == expected.size());
  CHECK(subject.appended() == expected);
}

TEST_CASE("device_appender: blocks of a million threads lie whole and without a gap") {
  subject subject;
  const auto ref = subject.appender.prepare(10, subject.order);
  REQUIRE(launch_append_blocks(ref, threads, subject.order.get()) == 0);
  std::size_t asked = 0;
  for (unsigned i = 0; i < threads; ++i) asked += i % most_in_block;
  const append_result result = subject.appender.commit(subject.order, on_overflow::keep);
  CHECK(result.appended + result.missed == asked);
  CHECK(result.appended <= ref.capacity());
  CHECK(result.appended + most_in_block > ref.capacity());

  const std::vector<unsigned> found = subject.vector.copy_to_host(subject.order);
  std::vector<char> seen(threads);
  for (std::size_t start = 3; start < found.size();) {
    const unsigned thread = found[start];
    const unsigned length = thread % most_in_block;
    REQUIRE(thread < threads);
    REQUIRE(seen[thread]++ == 0);
    REQUIRE(length > 0);
    REQUIRE(start + length <= found.size());
    const auto block = found.begin() + static_cast<std::ptrdiff_t>(start);
    REQUIRE(std::count(block, block + length, thread) == static_cast<std::ptrdiff_t>(length));
    start += length;
  }
}

TEST_CASE("device_appender: lanes that append to different vectors in one instruction") {
  subject even;
  subject odd;
  const auto to_even = even.appender.prepare(threads, even.order);
  const auto to_odd = odd.appender.prepare(threads, odd.order);
  odd.order.synchronize();
  REQUIRE(launch_append_to_either(to_even, to_odd, threads, even.order.get()) == 0);
  CHECK(even.appender.commit(even.order).appended == threads / 2);
  CHECK(odd.appender.commit(even.order).appended == threads / 2);
  std::vector<unsigned> expected = numbers(threads);
  const auto split = std::stable_partition(expected.begin(), expected.end(),
                                           [](unsigned value) { return value % 2 == 0; });
  CHECK(even.appended() == std::vector(expected.begin(), split));
  CHECK(odd.appended() == std::vector(split, expected.end()));
}

TEST_CASE("device_appender: the lanes of a warp take their slots together") {
  subject subject;
  const auto ref = subject.appender.prepare(threads, subject.order);
  REQUIRE(launch_append_all(ref, 0, threads, subject.order.get()) == 0);
  REQUIRE(subject.appender.commit(subject.order).appended == threads);
  const std::vector<unsigned> found = subject.vector.copy_to_host(subject.order);
  // Lanes that take together lie in the order of the lanes. A warp may have parted here and there.
  unsigned groups = 1;
  for (std::size_t i = 4; i < found.size(); ++i)
    if (found[i] != found[i - 1] + 1 || found[i] % 32 == 0) ++groups;
  CHECK(groups >= threads / 32);
  CHECK(groups <= threads / 32 * 2);
}

TEST_CASE("device_appender: kernels of several streams append in one run") {
  subject subject;
  constexpr unsigned each = threads / 4;
  std::vector<stream> others;
  std::vector<event> finished;
  const auto ref = subject.appender.prepare(threads, subject.order);
  event ready{first_device};
  ready.record(subject.order);
  for (unsigned index = 0; index < 4; ++index) {
    others.emplace_back(first_device);
    finished.emplace_back(first_device);
    others.back().wait(ready);
    REQUIRE(launch_append_all(ref, index * each, each, others.back().get()) == 0);
    finished.back().record(others.back());
    subject.order.wait(finished.back());
  }
  CHECK(subject.appender.commit(subject.order).appended == threads);
  CHECK(subject.appended() == numbers(threads));
}

TEST_CASE(
    "device_appender: appends and grows while a kernel works on the elements that are there") {
  constexpr std::size_t first = 100'000;
  const stream working{first_device};
  const stream appending{first_device};
  const pinned_memory words{2 * sizeof(unsigned)};
  auto* const stop = reinterpret_cast<volatile unsigned*>(words.get());
  auto* const rounds = reinterpret_cast<unsigned*>(words.get()) + 1;
  *stop = 0;
  *rounds = 0;
  growable_device_vector<unsigned> vector{first_device};
  device_appender<unsigned> appender{vector};
  vector.append(std::vector<unsigned>(first, 0U), working);
  working.synchronize();
  unsigned* const base = vector.data();
  {
    // A kernel may be loaded when it is first launched, and loading waits for those that run.
    growable_device_vector<unsigned> other{first_device};
    device_appender<unsigned> first_use{other};
    REQUIRE(launch_append_all(first_use.prepare(1, appending), 0, 1, appending.get()) == 0);
    REQUIRE(first_use.commit(appending).missed == 0);
  }
  drain_retired_memory();
  REQUIRE(launch_count_until(base, first, stop, rounds, working.get()) == 0);

  std::size_t room = 1;
  int runs = 0;
  do {
    const auto ref = appender.prepare(room, appending);
    CHECK(launch_append_all(ref, 0, threads, appending.get()) == 0);
    room = appender.commit(appending).missed;
    ++runs;
  } while (room != 0 && runs < 3);
  const bool still_running = !working.is_done();
  *stop = 1;
  working.synchronize();

  CHECK(still_running);
  CHECK(runs == 2);
  CHECK(vector.data() == base);
  std::vector<unsigned> found = vector.copy_to_host(appending);
  REQUIRE(found.size() == first + threads);
  const auto end = found.begin() + first;
  CHECK(*rounds > 0);
  CHECK(std::all_of(found.begin(), end, [&](unsigned value) { return value == *rounds; }));
  std::sort(end, found.end());
  CHECK(std::equal(end, found.end(), numbers(threads).begin()));
}
