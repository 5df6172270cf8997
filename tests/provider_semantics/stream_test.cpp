// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <utility>

#include "core/hip_compat.hpp"
#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

hipError_t create_stream(unsigned flags) {
  hipStream_t stream = nullptr;
  const hipError_t code = hipStreamCreateWithFlags(&stream, flags);
  if (code == hipSuccess) REQUIRE(hipStreamDestroy(stream) == hipSuccess);
  return code;
}

hipError_t create_event(unsigned flags) {
  hipEvent_t event = nullptr;
  const hipError_t code = hipEventCreateWithFlags(&event, flags);
  if (code == hipSuccess) REQUIRE(hipEventDestroy(event) == hipSuccess);
  return code;
}

void count(hipStream_t, hipError_t, void* counter) { ++*static_cast<int*>(counter); }

struct wait_inside {
  hipStream_t stream;
  hipError_t code;
};

void wait(hipStream_t, hipError_t, void* passed) {
  auto& asked = *static_cast<wait_inside*>(passed);
  asked.code = hipStreamSynchronize(asked.stream);
}

void note(hipStream_t stream, hipError_t status, void* seen) {
  *static_cast<std::pair<hipStream_t, hipError_t>*>(seen) = {stream, status};
}

}  // namespace

TEST_CASE("stream: its arguments") {
  const own_stream stream;
  hipStream_t made = nullptr;
  unsigned flags = 0;
  check_rules({
      {"blocking", [] { return create_stream(hipStreamDefault); }, hipSuccess},
      {"non-blocking", [] { return create_stream(hipStreamNonBlocking); }, hipSuccess},
      {"unknown flags", [] { return create_stream(6); }},
      {"no result", [] { return hipStreamCreate(nullptr); }},
      {"a priority past the range",
       [&] {
         const hipError_t code = hipStreamCreateWithPriority(&made, hipStreamDefault, -1000);
         return code == hipSuccess ? hipStreamDestroy(made) : code;
       },
       hipSuccess},
      {"destroy the null stream", [] { return hipStreamDestroy(nullptr); }, hipErrorInvalidHandle},
      {"destroy the thread's own", [] { return hipStreamDestroy(hipStreamPerThread); },
       hipErrorInvalidHandle},
      {"idle", [&] { return hipStreamQuery(stream.get()); }, hipSuccess},
      {"flags", [&] { return hipStreamGetFlags(stream.get(), &flags); }, hipSuccess},
      {"flags for nobody", [&] { return hipStreamGetFlags(stream.get(), nullptr); }},
      {"no callback", [&] { return hipStreamAddCallback(stream.get(), nullptr, nullptr, 0); }},
  });
}

TEST_CASE("stream: tells its device and flags") {
  const own_stream stream{hipStreamNonBlocking};
  unsigned flags = 0;
  REQUIRE(hipStreamGetFlags(stream.get(), &flags) == hipSuccess);
  CHECK(flags == hipStreamNonBlocking);
  CHECK(hipGetStreamDeviceId(stream.get()) == 0);
  CHECK(hipGetStreamDeviceId(nullptr) == 0);
}

TEST_CASE("stream: those that a value names take work") {
  const allocation memory{4096};
  unsigned char value = 0;
  // The null stream, its name in newer headers, and the thread's own.
  for (const std::uintptr_t name : {0U, 1U, 2U}) {
    CAPTURE(name);
    const auto stream = reinterpret_cast<hipStream_t>(name);
    ++value;
    REQUIRE(hipMemsetAsync(memory.get(), value, 4096, stream) == hipSuccess);
    REQUIRE(hipStreamSynchronize(stream) == hipSuccess);
    CHECK(byte_at(memory.get() + 4095) == value);
    CHECK(hipStreamQuery(stream) == hipSuccess);
  }
}

TEST_CASE("event: its arguments") {
  const own_stream stream;
  const own_event event;
  float milliseconds = 0;
  check_rules({
      {"default", [] { return create_event(0); }, hipSuccess},
      {"blocking, without time", [] { return create_event(3); }, hipSuccess},
      {"reaching the system", [] { return create_event(hipEventReleaseToSystem); }, hipSuccess},
      {"reaching both",
       [] { return create_event(hipEventReleaseToSystem | hipEventReleaseToDevice); }},
      {"without a fence for the system",
       [] { return create_event(hipvmm::hip_compat::event_disable_system_fence); }, hipSuccess},
      {"unknown flags", [] { return create_event(0x100); }},
      {"between processes, with time", [] { return create_event(hipEventInterprocess); }},
      {"between processes",
       [] { return create_event(hipEventInterprocess | hipEventDisableTiming); }, hipSuccess},
      {"never recorded", [&] { return hipEventQuery(event.get()); }, hipSuccess},
      {"waiting for it", [&] { return hipStreamWaitEvent(stream.get(), event.get(), 0); },
       hipSuccess},
      {"with flags", [&] { return hipStreamWaitEvent(stream.get(), event.get(), 8); }},
      {"time from it", [&] { return hipEventElapsedTime(&milliseconds, event.get(), event.get()); },
       hipErrorInvalidHandle},
      {"record null", [&] { return hipEventRecord(nullptr, stream.get()); }, hipErrorInvalidHandle},
      {"query null", [] { return hipEventQuery(nullptr); }, hipErrorInvalidHandle},
      {"destroy null", [] { return hipEventDestroy(nullptr); }, hipErrorInvalidHandle},
  });
}

TEST_CASE("event: is not ready before the work ahead of it") {
  const own_stream stream{hipStreamNonBlocking};
  const own_event event{hipEventDisableTiming};
  held back{stream.get()};
  REQUIRE(hipEventRecord(event.get(), stream.get()) == hipSuccess);
  CHECK(hipEventQuery(event.get()) == hipErrorNotReady);
  CHECK(hipStreamQuery(stream.get()) == hipErrorNotReady);
  back.release();
  CHECK(hipEventQuery(event.get()) == hipSuccess);
  CHECK(hipStreamQuery(stream.get()) == hipSuccess);
}

TEST_CASE("event: one without time has no elapsed time") {
  const own_stream stream;
  const own_event event{hipEventDisableTiming};
  REQUIRE(hipEventRecord(event.get(), stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  float milliseconds = 0;
  CHECK(hipEventElapsedTime(&milliseconds, event.get(), event.get()) == hipErrorInvalidHandle);
}

TEST_CASE("order: a stream that waits for an event follows the work ahead of it") {
  const own_stream first{hipStreamNonBlocking};
  const own_stream second{hipStreamNonBlocking};
  const own_event event{hipEventDisableTiming};
  held back{first.get()};
  REQUIRE(hipEventRecord(event.get(), first.get()) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(second.get(), event.get(), 0) == hipSuccess);
  int runs = 0;
  REQUIRE(hipStreamAddCallback(second.get(), count, &runs, 0) == hipSuccess);
  CHECK(hipStreamQuery(second.get()) == hipErrorNotReady);
  back.release();
  REQUIRE(hipStreamSynchronize(second.get()) == hipSuccess);
  CHECK(runs == 1);
}

TEST_CASE("order: work of the null stream follows that of blocking streams") {
  const own_stream blocking;
  held back{blocking.get()};
  const own_event event{hipEventDisableTiming};
  REQUIRE(hipEventRecord(event.get(), nullptr) == hipSuccess);
  CHECK(hipEventQuery(event.get()) == hipErrorNotReady);
  back.release();
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(hipEventQuery(event.get()) == hipSuccess);
}

TEST_CASE("order: work of the null stream does not follow that of non-blocking streams") {
  const own_stream free{hipStreamNonBlocking};
  held back{free.get()};
  const own_event event{hipEventDisableTiming};
  REQUIRE(hipEventRecord(event.get(), nullptr) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(hipEventQuery(event.get()) == hipSuccess);
}

TEST_CASE("order: the null stream is not idle while its blocking streams are busy") {
  const own_stream blocking;
  held back{blocking.get()};
  check_rules({{"query", [] { return hipStreamQuery(nullptr); }, hipErrorNotReady}});
}

TEST_CASE("callback: gets the stream it was added to") {
  const own_stream stream;
  std::pair<hipStream_t, hipError_t> seen{nullptr, hipErrorUnknown};
  REQUIRE(hipStreamAddCallback(stream.get(), note, &seen, 0) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(seen.first == stream.get());
  CHECK(seen.second == hipSuccess);
}

TEST_CASE("callback: may wait for what is done, but not on CUDA") {
  const own_stream stream;
  const own_stream idle{hipStreamNonBlocking};
  wait_inside asked{idle.get(), hipErrorUnknown};
  REQUIRE(hipStreamAddCallback(stream.get(), wait, &asked, 0) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  check_rules({{"synchronize", [&] { return asked.code; },
                answer::not_imitated(hipSuccess, hipErrorIllegalState)}});
}

TEST_CASE("stream: work that was submitted survives its end") {
  int runs = 0;
  const own_event event{hipEventDisableTiming};
  {
    const own_stream gone;
    REQUIRE(hipStreamAddCallback(gone.get(), count, &runs, 0) == hipSuccess);
    REQUIRE(hipEventRecord(event.get(), gone.get()) == hipSuccess);
  }
  REQUIRE(hipEventSynchronize(event.get()) == hipSuccess);
  CHECK(runs == 1);
}

TEST_CASE("stream value: a stream waits for the number that another writes") {
  void* start = nullptr;
  REQUIRE(hipExtMallocWithFlags(&start, 8, hipMallocSignalMemory) == hipSuccess);
  auto* const number = static_cast<volatile std::uint64_t*>(start);
  *number = 0;
  {
    const own_stream waits{hipStreamNonBlocking};
    const own_stream writes{hipStreamNonBlocking};
    constexpr std::uint32_t every_bit = 0xFFFFFFFF;
    check_rules({
        {"wait for null",
         [&] { return hipStreamWaitValue32(waits.get(), nullptr, 1, 0, every_bit); }},
        {"unknown condition",
         [&] { return hipStreamWaitValue32(waits.get(), start, 1, 7, every_bit); }},
        {"write to null", [&] { return hipStreamWriteValue64(writes.get(), nullptr, 1, 0); }},
        {"wait",
         [&] {
           return hipStreamWaitValue32(waits.get(), start, 5, hipStreamWaitValueEq, every_bit);
         },
         hipSuccess},
        {"the stream that waits", [&] { return hipStreamQuery(waits.get()); }, hipErrorNotReady},
        {"write", [&] { return hipStreamWriteValue64(writes.get(), start, 5, 0); }, hipSuccess},
        {"the stream, waited for", [&] { return hipStreamSynchronize(waits.get()); }, hipSuccess},
    });
    CHECK(*number == 5);
  }
  CHECK(hipFree(start) == hipSuccess);
}
