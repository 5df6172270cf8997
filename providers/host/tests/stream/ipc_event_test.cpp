// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>

#include "providers/host/tests/pool/mem_pool_fixtures.hpp"
#include "providers/host/tests/pool/sharing_fixture.hpp"

using namespace hipvmm::test;

namespace {

constexpr unsigned shared_flags = hipEventInterprocess | hipEventDisableTiming;
// The ends of two pipes as a child finds them.
constexpr int from_parent = inherited;
constexpr int to_parent = inherited + 1;

struct pipe_ends {
  pipe_ends() { REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0); }
  pipe_ends& operator=(pipe_ends&&) = delete;
  ~pipe_ends() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  std::array<int, 2> ends{};
};

template <class Value>
void send(int descriptor, const Value& value) {
  REQUIRE(::write(descriptor, &value, sizeof(value)) == sizeof(value));
}
template <class Value>
Value receive(int descriptor) {
  Value value{};
  REQUIRE(::read(descriptor, &value, sizeof(value)) == sizeof(value));
  return value;
}

hipIpcEventHandle_t handle_of(const event& shared) {
  hipIpcEventHandle_t handle{};
  REQUIRE(hipIpcGetEventHandle(&handle, shared.get()) == hipSuccess);
  return handle;
}

hipEvent_t open_sent() {
  hipEvent_t opened = nullptr;
  REQUIRE(hipIpcOpenEventHandle(&opened, receive<hipIpcEventHandle_t>(from_parent)) == hipSuccess);
  return opened;
}

/// A child that talks with its parent over two pipes.
class partner {
 public:
  explicit partner(const char* name)
      : result_{std::async(std::launch::async, [this, name] {
          return run_child(name, {}, {{down_.ends[0], from_parent}, {up_.ends[1], to_parent}});
        })} {}

  template <class Value>
  void tell(const Value& value) {
    send(down_.ends[1], value);
  }
  void wait() { static_cast<void>(receive<char>(up_.ends[0])); }
  void check_passed() {
    const child_result result = result_.get();
    CAPTURE(result.output);
    CHECK(passed(result));
  }

 private:
  pipe_ends down_;
  pipe_ends up_;
  std::future<child_result> result_;
};

}  // namespace

TIDY_CASE("interprocess event: arguments outside the rules are refused") {
  const event plain{hipEventDisableTiming};
  const event shared{shared_flags};
  hipIpcEventHandle_t handle = handle_of(shared);
  hipIpcEventHandle_t nothing{};
  hipEvent_t opened = nullptr;
  float milliseconds = 0;
  REQUIRE(hipEventRecord(shared.get(), nullptr) == hipSuccess);
  check_refusals({
      {"with timing", hipEventCreateWithFlags(&opened, hipEventInterprocess)},
      {"null handle", hipIpcGetEventHandle(nullptr, shared.get())},
      {"null event", hipIpcGetEventHandle(&handle, nullptr)},
      {"forged event", hipIpcGetEventHandle(&handle, as_handle<hipEvent_t>(0x1230)),
       hipErrorInvalidHandle},
      {"another kind of event", hipIpcGetEventHandle(&handle, plain.get()),
       hipErrorInvalidConfiguration},
      {"open null", hipIpcOpenEventHandle(nullptr, handle)},
      {"open nothing", hipIpcOpenEventHandle(&opened, nothing)},
      {"open in the same process", hipIpcOpenEventHandle(&opened, handle), hipErrorInvalidContext},
      {"time", hipEventElapsedTime(&milliseconds, shared.get(), shared.get()),
       hipErrorInvalidHandle},
  });
  CHECK(opened == nullptr);
}

TIDY_CASE("interprocess event: in its own process it is an event like any other") {
  const event shared{shared_flags};
  const stream first;
  const stream second;
  CHECK(hipEventQuery(shared.get()) == hipSuccess);
  CHECK(hipEventSynchronize(shared.get()) == hipSuccess);
  bool ran = false;
  {
    const held_streams held;
    CHECK(hipLaunchHostFunc(first.get(), set_flag, &ran) == hipSuccess);
    CHECK(hipEventRecord(shared.get(), first.get()) == hipSuccess);
    CHECK(hipEventQuery(shared.get()) == hipErrorNotReady);
    CHECK(hipStreamWaitEvent(second.get(), shared.get(), 0) == hipSuccess);
    CHECK(hipStreamQuery(second.get()) == hipErrorNotReady);
  }
  CHECK(hipEventSynchronize(shared.get()) == hipSuccess);
  CHECK(ran);
  CHECK(hipEventQuery(shared.get()) == hipSuccess);
  CHECK(second.wait() == hipSuccess);
}

HIPVMM_CHILD("waits for records of its parent") {
  hipEvent_t opened = open_sent();
  const stream work;
  CHECK(hipEventQuery(opened) == hipSuccess);  // not recorded yet
  send(to_parent, 'o');
  static_cast<void>(receive<char>(from_parent));  // recorded, behind work that is held
  CHECK(hipEventQuery(opened) == hipErrorNotReady);
  bool ran = false;
  CHECK(hipStreamWaitEvent(work.get(), opened, 0) == hipSuccess);
  CHECK(hipLaunchHostFunc(work.get(), set_flag, &ran) == hipSuccess);
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  CHECK_FALSE(ran);
  send(to_parent, 'w');
  CHECK(hipEventSynchronize(opened) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(ran);
  CHECK(hipEventQuery(opened) == hipSuccess);
  hipIpcEventHandle_t again{};
  CHECK(hipIpcGetEventHandle(&again, opened) == hipErrorInvalidConfiguration);
  CHECK(hipEventDestroy(opened) == hipSuccess);
}

TIDY_CASE("interprocess event: another process waits for a record made after it opened it") {
  const event shared{shared_flags};
  const stream work;
  partner child{"waits for records of its parent"};
  child.tell(handle_of(shared));
  child.wait();
  {
    const roadblock block{work.get()};
    CHECK(hipEventRecord(shared.get(), work.get()) == hipSuccess);
    child.tell('r');
    child.wait();
  }
  child.check_passed();
  CHECK(work.wait() == hipSuccess);
}

HIPVMM_CHILD("records and lets its parent wait") {
  hipEvent_t opened = open_sent();
  const stream work;
  {
    const roadblock block{work.get()};
    CHECK(hipEventRecord(opened, work.get()) == hipSuccess);
    send(to_parent, 'r');
    static_cast<void>(receive<char>(from_parent));
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(hipEventDestroy(opened) == hipSuccess);
}

TIDY_CASE("interprocess event: its process waits for the record of another") {
  const event shared{shared_flags};
  const stream work;
  CHECK(hipEventRecord(shared.get(), work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  partner child{"records and lets its parent wait"};
  child.tell(handle_of(shared));
  child.wait();
  CHECK(hipEventQuery(shared.get()) == hipErrorNotReady);
  CHECK(hipStreamWaitEvent(work.get(), shared.get(), 0) == hipSuccess);
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  child.tell('g');
  CHECK(hipEventSynchronize(shared.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  child.check_passed();
}

HIPVMM_CHILD("ends with its record outstanding") {
  hipEvent_t opened = open_sent();
  const stream work;
  const held_streams held;
  CHECK(hipLaunchHostFunc(
            work.get(), [](void*) {}, nullptr) == hipSuccess);
  CHECK(hipEventRecord(opened, work.get()) == hipSuccess);
  send(to_parent, 'r');
  static_cast<void>(receive<char>(from_parent));
  ::_exit(0);
}

TIDY_CASE("interprocess event: a wait ends when the recording process does") {
  const event shared{shared_flags};
  const stream work;
  partner child{"ends with its record outstanding"};
  child.tell(handle_of(shared));
  child.wait();
  CHECK(hipStreamWaitEvent(work.get(), shared.get(), 0) == hipSuccess);
  CHECK(hipEventQuery(shared.get()) == hipErrorNotReady);
  child.tell('e');
  CHECK(hipEventSynchronize(shared.get()) == hipErrorIllegalState);
  CHECK(work.wait() == hipErrorIllegalState);
}

HIPVMM_CHILD("opens an event that is gone") {
  hipEvent_t opened = nullptr;
  CHECK(hipIpcOpenEventHandle(&opened, receive<hipIpcEventHandle_t>(from_parent)) ==
        hipErrorInvalidValue);
  CHECK(opened == nullptr);
}

TIDY_CASE("interprocess event: one that was destroyed cannot be opened") {
  hipIpcEventHandle_t handle{};
  {
    const event shared{shared_flags};
    handle = handle_of(shared);
  }
  partner child{"opens an event that is gone"};
  child.tell(handle);
  child.check_passed();
}

HIPVMM_CHILD("captures behind a record of its parent") {
  hipEvent_t opened = open_sent();
  const stream work;
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamBeginCapture(work.get(), hipStreamCaptureModeThreadLocal) == hipSuccess);
  CHECK(hipStreamWaitEvent(work.get(), opened, 0) == hipErrorStreamCaptureIsolation);
  CHECK(hipStreamEndCapture(work.get(), &graph) == hipErrorStreamCaptureInvalidated);
  CHECK(hipEventDestroy(opened) == hipSuccess);
}

TIDY_CASE("interprocess event: a captured stream does not wait for the record of another process") {
  const event shared{shared_flags};
  REQUIRE(hipEventRecord(shared.get(), nullptr) == hipSuccess);
  partner child{"captures behind a record of its parent"};
  child.tell(handle_of(shared));
  child.check_passed();
}

HIPVMM_CHILD("waits for the first of many records") {
  hipEvent_t opened = open_sent();
  const stream work;
  CHECK(hipStreamWaitEvent(work.get(), opened, 0) == hipSuccess);
  send(to_parent, 'w');
  static_cast<void>(receive<char>(from_parent));  // the others were made in an idle stream
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  send(to_parent, 'n');
  CHECK(work.wait() == hipSuccess);
  CHECK(hipEventDestroy(opened) == hipSuccess);
}

TIDY_CASE("interprocess event: a record that is not reached outlasts any number of later ones") {
  const event shared{shared_flags};
  const stream held_up;
  const stream idle;
  partner child{"waits for the first of many records"};
  std::future<void> later;
  {
    const roadblock block{held_up.get()};
    REQUIRE(hipEventRecord(shared.get(), held_up.get()) == hipSuccess);
    child.tell(handle_of(shared));
    child.wait();
    later = std::async(std::launch::async, [&] {
      for (int i = 0; i < 100; ++i) CHECK(hipEventRecord(shared.get(), idle.get()) == hipSuccess);
    });
    CHECK(later.wait_for(std::chrono::milliseconds{200}) == std::future_status::timeout);
    child.tell('l');
    child.wait();
  }
  later.get();
  child.check_passed();
  CHECK(idle.wait() == hipSuccess);
}

TIDY_CASE("interprocess event: in a host function a record that would wait is refused") {
  struct outcomes {
    hipEvent_t shared;
    hipStream_t idle;
    int recorded = 0;
    hipError_t code = hipSuccess;
  };
  const event shared{shared_flags};
  const stream held_up;
  const stream idle;
  outcomes found{shared.get(), idle.get()};
  {
    const held_streams held;
    const auto record_all = [](void* to) {
      auto& each = *static_cast<outcomes*>(to);
      while (each.recorded < 100 && each.code == hipSuccess) {
        each.code = hipEventRecord(each.shared, each.idle);
        if (each.code == hipSuccess) ++each.recorded;
      }
    };
    REQUIRE(hipLaunchHostFunc(held_up.get(), record_all, &found) == hipSuccess);
    REQUIRE(hipEventRecord(shared.get(), held_up.get()) == hipSuccess);
  }
  CHECK(held_up.wait() == hipSuccess);
  CHECK(found.code == hipErrorIllegalState);
  CHECK(found.recorded == 63);
  CHECK(idle.wait() == hipSuccess);
  CHECK(hipEventSynchronize(shared.get()) == hipSuccess);
}
