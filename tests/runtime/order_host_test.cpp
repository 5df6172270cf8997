// SPDX-License-Identifier: MIT
#include <stop_token>

#include <hipvmm/runtime/event.hpp>
#include "core/background_thread.hpp"
#include "core/capture_mode.hpp"
#include "runtime/stream.hpp"
#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"
#include "support/note_taker.hpp"

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

TEST_CASE("event: is not done while the work before its mark waits, which a recording moves") {
  const stream stream;
  const device_memory memory{KiB};
  event mark;
  for (int recordings = 1; recordings <= 2; ++recordings) {
    held_streams held;
    fill_async(stream, memory.get(), 1, KiB);
    mark.record(stream);
    CHECK_FALSE(mark.is_done());
    held.release();
    mark.synchronize();
    CHECK(mark.is_done());
  }
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

TEST_CASE("stream: work of the default stream waits for blocking ones alone") {
  const device_memory memory{KiB};
  const stream_ref all = stream_ref::legacy_default();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  std::promise<void> gate;
  const auto wait = [](void* argument) {
    static_cast<std::promise<void>*>(argument)->get_future().wait();
  };
  {
    const stream apart{first_device, stream_kind::non_blocking};
    REQUIRE(hipLaunchHostFunc(apart.get(), wait, &gate) == hipSuccess);
    fill_async(all, memory.get(), 1, KiB);
    while (!all.is_done() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK(all.is_done());
    gate.set_value();
    apart.synchronize();
  }
  gate = {};
  const stream blocking{first_device, stream_kind::blocking};
  REQUIRE(hipLaunchHostFunc(blocking.get(), wait, &gate) == hipSuccess);
  fill_async(all, memory.get(), 2, KiB);
  CHECK_FALSE(all.is_done());
  gate.set_value();
  all.synchronize();
}

TEST_CASE("stream_watcher: a wait for an event that fails orders nothing") {
  const stream writer;
  const stream reader;
  event written;
  const note_taker told;
  written.record(writer);
  const planned_fault fault{"hipStreamWaitEvent", 1, hipErrorUnknown};
  CHECK_THROWS_AS(reader.wait(written), hip_error);
  CHECK(told.follows.empty());
}

TEST_CASE("is_captured: the null stream counts while a blocking stream is captured") {
  const stream blocking{first_device, stream_kind::blocking};
  CHECK_FALSE(detail::is_captured(stream_ref::legacy_default()));
  REQUIRE(hipStreamBeginCapture(blocking.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  bool captured = false;
  CHECK_NOTHROW(captured = detail::is_captured(stream_ref::legacy_default()));
  CHECK(captured);
  static_cast<void>(end_capture_if_kept(blocking.get()));
}

TEST_CASE("background_thread: may call what a capture of another thread forbids") {
  const stream captured;
  hipError_t answer = hipErrorUnknown;
  void* memory = nullptr;
  const auto allocate = [&] { answer = hipMalloc(&memory, KiB); };
  detail::background_thread thread{[&](const std::stop_token&) { allocate(); }};
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  REQUIRE(thread.start());
  thread.stop();
  CHECK(answer == hipSuccess);
  end_capture(captured.get());
  CHECK(hipFree(memory) == hipSuccess);
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
