// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/event.hpp>

#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("event: one that was never recorded is done") {
  const event event;
  CHECK(event.is_done());
  CHECK_NOTHROW(event.synchronize());
}

TEST_CASE("event: synchronize waits for the work before the mark") {
  const stream stream;
  const device_memory memory{4 * MiB};
  event mark;
  fill_async(stream, memory.get(), 9, 4 * MiB);
  mark.record(stream);
  mark.synchronize();
  CHECK(mark.is_done());
  CHECK(read_bytes(hipvmm::stream{}, memory.get(), 4 * MiB) == byte_vector(4 * MiB, 9));
}

TEST_CASE("event: knows its device, and the current one stays current") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const event event{device_ref{ordinal}};
    CHECK(event.device() == device_ref{ordinal});
    CHECK(device_ref::current() == first_device);
  }
}

TEST_CASE("event: an unknown device throws invalid_argument") {
  CHECK_THROWS_AS(event{device_ref{-1}}, std::invalid_argument);
}

TEST_CASE("event: one that was moved from is refused") {
  event empty;
  const event moved{std::move(empty)};
  const stream stream;
  const char* const sentence = "the event is empty: it was moved from or released";
  CHECK_THROWS_WITH_AS(empty.record(stream), sentence, std::invalid_argument);
  CHECK_THROWS_WITH_AS(stream.wait(empty), sentence, std::invalid_argument);
  CHECK_THROWS_WITH_AS(empty.synchronize(), sentence, std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(empty.is_done()), sentence, std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(event::elapsed(empty, moved)), sentence,
                       std::invalid_argument);
}

TEST_CASE("event: elapsed times of two parts add up to that of the whole") {
  const stream stream;
  const device_memory memory{4 * MiB};
  event from{event_timing::enabled};
  event between{event_timing::enabled};
  event to{event_timing::enabled};
  from.record(stream);
  fill_async(stream, memory.get(), 1, 4 * MiB);
  between.record(stream);
  fill_async(stream, memory.get(), 2, 4 * MiB);
  to.record(stream);
  to.synchronize();
  const auto first = event::elapsed(from, between).count();
  const auto second = event::elapsed(between, to).count();
  CHECK(first >= 0);
  CHECK(second >= 0);
  CHECK(event::elapsed(from, to).count() == doctest::Approx(first + second).epsilon(0.01));
}

TEST_CASE("event: elapsed throws for an event that keeps no time, or was never recorded") {
  const stream stream;
  event from{event_timing::enabled};
  event untimed{event_timing::disabled};
  const event unrecorded{event_timing::enabled};
  from.record(stream);
  untimed.record(stream);
  stream.synchronize();
  CHECK_THROWS_AS(static_cast<void>(event::elapsed(from, untimed)), hip_error);
  CHECK_THROWS_AS(static_cast<void>(event::elapsed(from, unrecorded)), hip_error);
}

}  // namespace
}  // namespace hipvmm::test
