// SPDX-License-Identifier: MIT
#include "providers/host/race/race_clock.hpp"

#include <doctest/doctest.h>

using hipvmm::host_provider::race_clock;

TEST_CASE("race_clock: covers what was included, and what came before it") {
  race_clock clock;
  CHECK_FALSE(clock.covers(7, 1));
  CHECK(clock.covers(7, 0));
  clock.include(7, 3);
  CHECK(clock.covers(7, 1));
  CHECK(clock.covers(7, 3));
  CHECK_FALSE(clock.covers(7, 4));
  CHECK_FALSE(clock.covers(6, 1));
  CHECK_FALSE(clock.covers(8, 1));
}

TEST_CASE("race_clock: never goes back") {
  race_clock clock;
  clock.include(7, 3);
  clock.include(7, 2);
  CHECK(clock.covers(7, 3));
  CHECK(clock.size() == 1);
}

TEST_CASE("race_clock: nothing of a stream takes no room") {
  race_clock clock;
  clock.include(7, 0);
  CHECK(clock.size() == 0);
}

TEST_CASE("race_clock: including another takes the later of each stream") {
  race_clock a;
  race_clock b;
  a.include(1, 5);
  a.include(3, 1);
  b.include(2, 2);
  b.include(1, 4);
  b.include(3, 6);
  a.include(b);
  CHECK(a.covers(1, 5));
  CHECK(a.covers(2, 2));
  CHECK(a.covers(3, 6));
  CHECK(a.size() == 3);
}

TEST_CASE("race_clock: forgets the streams it is told to") {
  race_clock clock;
  for (hipvmm::host_provider::stream_number each : {3U, 1U, 2U}) clock.include(each, each);
  clock.forget_if([](auto, std::uint64_t count) { return count == 2; });
  CHECK(clock.covers(1, 1));
  CHECK_FALSE(clock.covers(2, 1));
  CHECK(clock.covers(3, 3));
}
