// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/event.hpp>
#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/host_provider.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("stream: is not done while its work waits") {
  const stream stream;
  const device_memory memory{KiB};
  held_streams held;
  fill_async(stream, memory.get(), 1, KiB);
  CHECK_FALSE(stream.is_done());
  held.release();
  stream.synchronize();
  CHECK(stream.is_done());
}

TEST_CASE("event: is not done while the work before its mark waits") {
  const stream stream;
  const device_memory memory{KiB};
  event mark;
  held_streams held;
  fill_async(stream, memory.get(), 1, KiB);
  mark.record(stream);
  CHECK_FALSE(mark.is_done());
  held.release();
  mark.synchronize();
  CHECK(mark.is_done());
}

TEST_CASE("event: recording again moves the mark") {
  const stream stream;
  const device_memory memory{KiB};
  event mark;
  mark.record(stream);
  mark.synchronize();
  held_streams held;
  fill_async(stream, memory.get(), 1, KiB);
  mark.record(stream);
  CHECK_FALSE(mark.is_done());
  held.release();
  mark.synchronize();
  CHECK(mark.is_done());
}

TEST_CASE("event: elapsed throws while a mark is not reached") {
  const stream stream;
  const device_memory memory{KiB};
  event from{event_timing::enabled};
  event to{event_timing::enabled};
  from.record(stream);
  stream.synchronize();
  held_streams held;
  fill_async(stream, memory.get(), 1, KiB);
  to.record(stream);
  CHECK_THROWS_AS(static_cast<void>(event::elapsed(from, to)), hip_error);
  held.release();
  stream.synchronize();
}

TEST_CASE("stream: wait returns at once and holds the work behind it back") {
  const stream producer;
  const stream consumer;
  const device_memory memory{KiB};
  event ready;
  held_streams held;
  fill_async(producer, memory.get(), 1, KiB);
  ready.record(producer);
  consumer.wait(ready);
  fill_async(consumer, memory.get(), 2, KiB);
  CHECK_FALSE(consumer.is_done());
  held.release();
  consumer.synchronize();
  CHECK(ready.is_done());
  CHECK(read_bytes(consumer, memory.get(), KiB) == byte_vector(KiB, 2));
}

TEST_CASE("copy_async: from pinned memory returns before the copy is done") {
  const stream stream;
  const device_memory memory{MiB};
  const pinned_memory source{MiB};
  held_streams held;
  copy_async(stream, memory.get(), source.get(), MiB);
  CHECK_FALSE(stream.is_done());
  std::fill_n(source.get(), MiB, static_cast<unsigned char>(3));
  held.release();
  CHECK(read_bytes(stream, memory.get(), MiB) == byte_vector(MiB, 3));
}

TEST_CASE("fill_pattern_async: has read the pattern when it returns") {
  const stream stream;
  const device_memory memory{30};
  byte_vector element = pattern(3, 5);
  const byte_vector original = element;
  held_streams held;
  fill_pattern_async(stream, memory.get(), element.data(), 3, 10);
  element.assign(3, 0);
  held.release();
  const byte_vector result = read_bytes(stream, memory.get(), 30);
  for (std::size_t i = 0; i < 30; ++i) CHECK(result[i] == original[i % 3]);
}

}  // namespace
}  // namespace hipvmm::test
