// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <array>
#include <memory>
#include <string>

#include "providers/host/base/handle_table.hpp"
#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;
using hipvmm::host_provider::handle_kind;
using hipvmm::host_provider::handle_reuse;
using hipvmm::host_provider::handle_table;

namespace {

hipStream_t new_stream(unsigned flags = hipStreamNonBlocking) {
  hipStream_t made = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&made, flags) == hipSuccess);
  return made;
}

hipEvent_t new_event() {
  hipEvent_t made = nullptr;
  REQUIRE(hipEventCreate(&made) == hipSuccess);
  return made;
}

/// Work of a stream that has been destroyed and waits.
class work_left_behind {
 public:
  explicit work_left_behind(void* memory) {
    handle = new_stream();
    REQUIRE(hipMemsetAsync(memory, 1, 64, handle) == hipSuccess);
    REQUIRE(hipStreamDestroy(handle) == hipSuccess);
  }
  hipStream_t handle = nullptr;
};

bool runs_under(const char* child, const char* reuse) {
  const child_result result = run_child(
      child, {std::string{"HIPVMM_HOST_REUSE_HANDLES="} + reuse, "HIPVMM_HOST_PROFILE=strict"});
  INFO(result.output);
  CHECK(passed(result));
  return passed(result);
}

}  // namespace

TEST_CASE("handle_table: the handle that became free last is the first to come again") {
  handle_table<const int> table{handle_kind::event, handle_reuse::last_first};
  std::array<std::uint64_t, 3> handles{};
  for (int i = 0; i < 3; ++i)
    handles[static_cast<std::size_t>(i)] = table.insert(std::make_shared<int>(i));
  CHECK(*table.extract(handles[0]) == 0);
  CHECK(*table.extract(handles[2]) == 2);
  CHECK(table.size() == 1);
  CHECK(table.find(handles[0]) == nullptr);
  CHECK(table.extract(handles[0]) == nullptr);

  CHECK(table.insert(std::make_shared<int>(7)) == handles[2]);
  CHECK(table.insert(std::make_shared<int>(8)) == handles[0]);
  CHECK(table.insert(std::make_shared<int>(9)) > handles[2]);
  CHECK(*table.find(handles[0]) == 8);
  CHECK(table.size() == 4);
}

TEST_CASE("handle_table: what is taken out by a rule leaves handles that come again") {
  handle_table<const int> table{handle_kind::stream, handle_reuse::last_first};
  const std::uint64_t even = table.insert(std::make_shared<int>(2));
  const std::uint64_t odd = table.insert(std::make_shared<int>(3));
  CHECK(table.extract_if([](int value) { return value % 2 == 0; }).size() == 1);
  CHECK(table.extract_if([](int value) { return value % 2 == 0; }).empty());
  CHECK(table.size() == 1);
  CHECK(table.insert(std::make_shared<int>(5)) == even);
  CHECK(*table.find(odd) == 3);
}

TEST_CASE("handle_table: an object is taken out only while the handle is its own") {
  for (const handle_reuse how : {handle_reuse::none, handle_reuse::last_first}) {
    handle_table<const int> table{handle_kind::stream, how};
    const auto first = std::make_shared<int>(1);
    const auto second = std::make_shared<int>(2);
    const std::uint64_t handle = table.insert(first);
    CHECK_FALSE(table.extract(handle, *second));
    CHECK(table.extract(handle, *first));
    CHECK_FALSE(table.extract(handle, *first));
    const std::uint64_t next = table.insert(second);
    CHECK((next == handle) == (how == handle_reuse::last_first));
    CHECK_FALSE(table.extract(handle, *first));
    CHECK(table.find(next) == second);
  }
}

HIPVMM_CHILD("handles of streams and events come again") {
  const nothing_left check;
  const hipStream_t first = new_stream();
  const hipStream_t second = new_stream();
  REQUIRE(hipStreamDestroy(first) == hipSuccess);
  REQUIRE(hipStreamDestroy(second) == hipSuccess);
  CHECK(new_stream() == second);
  // One that nobody has yet is refused as ever.
  CHECK(hipStreamSynchronize(first) == hipErrorInvalidHandle);
  CHECK(hipStreamDestroy(first) == hipErrorInvalidHandle);
  CHECK(new_stream() == first);
  CHECK(hipStreamSynchronize(first) == hipSuccess);

  const hipEvent_t early = new_event();
  const hipEvent_t late = new_event();
  REQUIRE(hipEventDestroy(early) == hipSuccess);
  REQUIRE(hipEventDestroy(late) == hipSuccess);
  CHECK(new_event() == late);
  CHECK(hipEventRecord(early, first) == hipErrorInvalidHandle);
  CHECK(hipEventDestroy(early) == hipErrorInvalidHandle);
  CHECK(new_event() == early);

  for (const hipStream_t each : {first, second}) CHECK(hipStreamDestroy(each) == hipSuccess);
  for (const hipEvent_t each : {early, late}) CHECK(hipEventDestroy(each) == hipSuccess);
}

HIPVMM_CHILD("handles of streams and events never come again") {
  const nothing_left check;
  const hipStream_t gone = new_stream();
  REQUIRE(hipStreamDestroy(gone) == hipSuccess);
  const hipEvent_t past = new_event();
  REQUIRE(hipEventDestroy(past) == hipSuccess);
  const stream next;
  const event mark;
  CHECK(next.get() != gone);
  CHECK(mark.get() != past);
  CHECK(hipStreamSynchronize(gone) == hipErrorInvalidHandle);
  CHECK(hipEventQuery(past) == hipErrorInvalidHandle);
}

HIPVMM_CHILD("a stream knows nothing of an earlier one that had its handle") {
  const allocation memory{64};
  hipvmm_host_hold_streams();
  const work_left_behind before{memory.at()};
  const stream next;
  REQUIRE(next.get() == before.handle);
  CHECK(hipStreamQuery(before.handle) == hipSuccess);
  CHECK(hipStreamSynchronize(before.handle) == hipSuccess);
  // The device still has the work of the other, which nothing orders this behind.
  const unordered_on_purpose beside;
  REQUIRE(hipMemsetAsync(memory.at(), 2, 64, before.handle) == hipSuccess);
  CHECK(hipStreamQuery(next.get()) == hipErrorNotReady);
  hipvmm_host_release_streams();
  CHECK(hipDeviceSynchronize() == hipSuccess);
}

HIPVMM_CHILD("a stale stream handle is that of the next stream") {
  const hipStream_t stale = new_stream(hipStreamNonBlocking);
  REQUIRE(hipStreamDestroy(stale) == hipSuccess);
  const stream next{hipStreamDefault, 1};
  REQUIRE(next.get() == stale);
  unsigned flags = 9;
  CHECK(hipStreamGetFlags(stale, &flags) == hipSuccess);
  CHECK(flags == hipStreamDefault);
  CHECK(hipGetStreamDeviceId(stale) == 1);
}

HIPVMM_CHILD("an event knows nothing of an earlier one that had its handle") {
  const allocation memory{64};
  const stream writer;
  const stream reader;
  const hipEvent_t stale = new_event();
  hipvmm_host_hold_streams();
  REQUIRE(hipMemsetAsync(memory.at(), 1, 64, writer.get()) == hipSuccess);
  REQUIRE(hipEventRecord(stale, writer.get()) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(reader.get(), stale, 0) == hipSuccess);
  REQUIRE(hipEventDestroy(stale) == hipSuccess);
  const event next;
  REQUIRE(next.get() == stale);
  // Never recorded; but the stream that waited for the other still does.
  CHECK(hipEventQuery(stale) == hipSuccess);
  CHECK(hipStreamQuery(reader.get()) == hipErrorNotReady);
  hipvmm_host_release_streams();
  CHECK(reader.wait() == hipSuccess);
  CHECK(writer.wait() == hipSuccess);
}

HIPVMM_CHILD("a capture ends with its stream whoever has the handle next") {
  const hipStream_t captured = new_stream();
  const hipEvent_t fork = new_event();
  REQUIRE(hipStreamBeginCapture(captured, hipStreamCaptureModeRelaxed) == hipSuccess);
  REQUIRE(hipEventRecord(fork, captured) == hipSuccess);
  REQUIRE(hipStreamDestroy(captured) == hipSuccess);
  REQUIRE(hipEventDestroy(fork) == hipSuccess);
  const stream next;
  const event mark;
  REQUIRE(next.get() == captured);
  REQUIRE(mark.get() == fork);
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  CHECK(hipStreamIsCapturing(captured, &status) == hipSuccess);
  CHECK(status == hipStreamCaptureStatusNone);
  CHECK(hipEventQuery(fork) == hipSuccess);
  hipGraph_t none = nullptr;
  CHECK(hipStreamEndCapture(captured, &none) == hipErrorIllegalState);
}

HIPVMM_CHILD("handles of a device that was reset come again") {
  const hipStream_t stale = new_stream();
  const hipEvent_t past = new_event();
  REQUIRE(hipDeviceReset() == hipSuccess);
  CHECK(hipStreamQuery(stale) == hipErrorInvalidHandle);
  CHECK(hipEventQuery(past) == hipErrorInvalidHandle);
  const stream next;
  const event mark;
  CHECK(next.get() == stale);
  CHECK(mark.get() == past);
}

TEST_CASE("handle: those of destroyed streams and events come again where that is asked for") {
  runs_under("handles of streams and events come again", "1");
  runs_under("handles of streams and events never come again", "0");
}

TEST_CASE("handle: one that is in use again is the new object's") {
  for (const char* each : {"a stream knows nothing of an earlier one that had its handle",
                           "a stale stream handle is that of the next stream",
                           "an event knows nothing of an earlier one that had its handle",
                           "a capture ends with its stream whoever has the handle next",
                           "handles of a device that was reset come again"})
    runs_under(each, "1");
}
