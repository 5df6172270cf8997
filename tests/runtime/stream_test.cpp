// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/stream.hpp>

#include <hipvmm/runtime/event.hpp>
#include "support/captures.hpp"
#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("stream_ref: is made from neither an integer nor nullptr") {
  CHECK_FALSE(std::is_constructible_v<stream_ref, int>);
  CHECK_FALSE(std::is_constructible_v<stream_ref, std::nullptr_t>);
}

TEST_CASE("stream_ref: converts from the stream types of HIP and CUDA and keeps the value") {
  CHECK(std::is_convertible_v<ihipStream_t*, stream_ref>);
  CHECK(std::is_convertible_v<CUstream_st*, stream_ref>);
  const stream owner;
  CHECK(stream_ref{owner.get()}.get() == owner.get());
  CHECK(stream_ref{reinterpret_cast<CUstream_st*>(owner.get())} == owner.ref());
}

TEST_CASE("stream_ref: the default streams are two and differ from any other") {
  const stream other;
  CHECK(stream_ref::legacy_default() != stream_ref::per_thread_default());
  CHECK(stream_ref::legacy_default() != other.ref());
  CHECK(stream_ref::per_thread_default() != other.ref());
}

TEST_CASE("stream_ref: tells the default streams by either of their names") {
  const stream other;
  CHECK(stream_ref::legacy_default().is_default());
  CHECK(stream_ref{reinterpret_cast<ihipStream_t*>(1)}.is_default());
  CHECK(stream_ref::per_thread_default().is_per_thread_default());
  for (const stream_ref neither : {other.ref(), stream_ref::per_thread_default()})
    CHECK_FALSE(neither.is_default());
  for (const stream_ref neither : {other.ref(), stream_ref::legacy_default()})
    CHECK_FALSE(neither.is_per_thread_default());
}

TEST_CASE("stream_ref: the default streams carry work") {
  for (const stream_ref stream : {stream_ref::legacy_default(), stream_ref::per_thread_default()}) {
    const device_memory memory{KiB};
    write_bytes(stream, memory.get(), pattern(KiB, 1));
    CHECK(read_bytes(stream, memory.get(), KiB) == pattern(KiB, 1));
    CHECK(stream.is_done());
  }
}

TEST_CASE("stream: an idle one is done") {
  const stream stream;
  CHECK(stream.is_done());
  CHECK_NOTHROW(stream.synchronize());
}

TEST_CASE("stream: knows its device, and the current one stays current") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const stream stream{device_ref{ordinal}};
    CHECK(stream.device() == device_ref{ordinal});
    CHECK(device_ref::current() == first_device);
  }
}

TEST_CASE("stream: an unknown device throws invalid_argument") {
  CHECK_THROWS_AS(stream{device_ref{device_count()}}, std::invalid_argument);
}

TEST_CASE("stream: an assigned one has the device of what was assigned") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  stream target{first_device};
  stream source{peer};
  ihipStream_t* const value = source.get();
  target = std::move(source);
  CHECK(target.get() == value);
  CHECK(target.device() == peer);
}

TEST_CASE("stream: a moved-from one never passes as the null stream") {
  stream source;
  const stream target = std::move(source);
  CHECK_THROWS_AS(static_cast<void>(source.ref()), std::invalid_argument);
  CHECK_THROWS_AS(source.synchronize(), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(source.is_done()), std::invalid_argument);
}

TEST_CASE("stream: work runs in the order of its submission") {
  const stream stream;
  const device_memory memory{MiB};
  for (unsigned char value = 1; value <= 50; ++value) fill_async(stream, memory.get(), value, MiB);
  CHECK(read_bytes(stream, memory.get(), MiB) == byte_vector(MiB, 50));
}

TEST_CASE("stream: destruction lets submitted work finish") {
  const device_memory memory{4 * MiB};
  {
    const stream stream;
    fill_async(stream, memory.get(), 7, 4 * MiB);
  }
  first_device.synchronize();
  CHECK(read_bytes(stream_ref::legacy_default(), memory.get(), 4 * MiB) == byte_vector(4 * MiB, 7));
}

TEST_CASE("stream: work submitted after wait sees what came before the event") {
  const stream producer;
  const stream consumer;
  const device_memory source{4 * MiB};
  const device_memory target{4 * MiB};
  event ready;
  for (unsigned char value = 1; value <= 20; ++value) {
    fill_async(producer, source.get(), value, 4 * MiB);
    ready.record(producer);
    consumer.wait(ready);
    copy_async(consumer, target.get(), source.get(), 4 * MiB);
    CHECK(read_bytes(consumer, target.get(), 4 * MiB) == byte_vector(4 * MiB, value));
  }
}

TEST_CASE("stream: tells whether it is captured, and the capture goes on") {
  const stream stream;
  CHECK_FALSE(stream.ref().is_capturing());
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  CHECK(stream.ref().is_capturing());
  end_capture(stream.get());
  CHECK_FALSE(stream.ref().is_capturing());
}

}  // namespace
}  // namespace hipvmm::test
