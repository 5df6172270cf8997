// SPDX-License-Identifier: MIT
// The null stream's rules.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <future>
#include <utility>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

// Keeps a stream busy until opened.
class blocker {
 public:
  explicit blocker(hipStream_t on) : opened_{promise_.get_future()} {
    REQUIRE(hipLaunchHostFunc(
                on, [](void* self) { static_cast<blocker*>(self)->pass(); }, this) == hipSuccess);
  }
  blocker& operator=(blocker&&) = delete;
  ~blocker() { open(); }

  void open() {
    if (!std::exchange(is_open_, true)) promise_.set_value();
  }
  [[nodiscard]] bool passed() const { return passed_; }

 private:
  void pass() {
    opened_.wait();
    passed_ = true;
  }

  std::promise<void> promise_;
  std::future<void> opened_;
  bool is_open_ = false;
  std::atomic<bool> passed_{false};
};

// Work that notes whether the blocker had passed when it ran.
struct witness {
  const blocker* before;
  bool ran = false;
  bool came_after = false;

  void submit(hipStream_t on) {
    REQUIRE(hipLaunchHostFunc(
                on,
                [](void* self) {
                  auto& each = *static_cast<witness*>(self);
                  each.ran = true;
                  each.came_after = each.before->passed();
                },
                this) == hipSuccess);
  }
};

// Gives work that wrongly waits for nothing every chance to run.
void let_others_run() {
  const stream other;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(hipLaunchHostFunc(
                other.get(), [](void*) {}, nullptr) == hipSuccess);
    REQUIRE(other.wait() == hipSuccess);
  }
}

// Whether work in `second` waits for earlier work in `first`.
bool waits(hipStream_t first, hipStream_t second) {
  blocker gate{first};
  witness later{&gate};
  later.submit(second);
  let_others_run();
  gate.open();
  for (hipStream_t each : {first, second}) CHECK(hipStreamSynchronize(each) == hipSuccess);
  CHECK(later.ran);
  return later.came_after;
}

// Whether work in `second` runs while earlier work in `first` does not end.
bool passes(hipStream_t first, hipStream_t second) {
  blocker gate{first};
  witness later{&gate};
  later.submit(second);
  CHECK(hipStreamSynchronize(second) == hipSuccess);
  gate.open();
  CHECK(hipStreamSynchronize(first) == hipSuccess);
  return later.ran && !later.came_after;
}

}  // namespace

TIDY_CASE("null stream: its work waits for earlier work of blocking streams") {
  const stream blocking{hipStreamDefault};
  CHECK(waits(blocking.get(), nullptr));
}

TIDY_CASE("null stream: work of a blocking stream waits for its earlier work") {
  const stream blocking{hipStreamDefault};
  CHECK(waits(nullptr, blocking.get()));
}

TIDY_CASE("null stream: orders two blocking streams through itself") {
  const stream first{hipStreamDefault};
  const stream second{hipStreamDefault};
  blocker gate{first.get()};
  witness between{&gate};
  witness last{&gate};
  between.submit(nullptr);
  last.submit(second.get());
  let_others_run();
  gate.open();
  CHECK(second.wait() == hipSuccess);
  CHECK(between.came_after);
  CHECK(last.came_after);
}

TIDY_CASE("null stream: a per-thread stream is a blocking stream") {
  CHECK(waits(nullptr, hipStreamPerThread));
  CHECK(waits(hipStreamPerThread, nullptr));
}

TIDY_CASE("null stream: non-blocking streams do not wait for it, nor it for them") {
  const stream free;
  CHECK(passes(nullptr, free.get()));
  CHECK(passes(free.get(), nullptr));
}

TIDY_CASE("null stream: blocking streams do not wait for each other") {
  const stream first{hipStreamDefault};
  const stream second{hipStreamDefault};
  CHECK(passes(first.get(), second.get()));
}

TIDY_CASE("null stream: every device has one of its own") {
  const stream of_1{hipStreamDefault, 1};
  CHECK(passes(nullptr, of_1.get()));
}

TIDY_CASE("null stream: a synchronous copy waits for blocking streams") {
  const stream blocking{hipStreamDefault};
  const mapped mapping{granule};
  std::byte value{};
  for (int i = 1; i < 100; ++i) {
    REQUIRE(hipMemsetAsync(mapping.at(), i, granule, blocking.get()) == hipSuccess);
    REQUIRE(hipMemcpyDtoH(&value, mapping.at(granule - 1), 1) == hipSuccess);
    REQUIRE(value == static_cast<std::byte>(i));
  }
}

TIDY_CASE("null stream: a synchronous copy does not wait for non-blocking streams") {
  const stream free;
  const mapped mapping{granule};
  blocker gate{free.get()};
  std::byte value{};
  CHECK(hipMemcpyDtoH(&value, mapping.at(), 1) == hipSuccess);
  CHECK_FALSE(gate.passed());
  gate.open();
  CHECK(free.wait() == hipSuccess);
}

TIDY_CASE("null stream: waiting for it waits for the blocking streams") {
  const stream blocking{hipStreamDefault};
  blocker gate{blocking.get()};
  CHECK(hipStreamQuery(nullptr) == hipErrorNotReady);
  gate.open();
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(gate.passed());
}

TIDY_CASE("null stream: streams that wait for each other in turn do not lock up") {
  const stream a{hipStreamDefault};
  const stream b{hipStreamDefault};
  const event from_a{hipEventDisableTiming};
  const event from_b{hipEventDisableTiming};
  for (int i = 0; i < 200; ++i) {
    REQUIRE(hipEventRecord(from_a.get(), a.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(b.get(), from_a.get(), 0) == hipSuccess);
    REQUIRE(hipLaunchHostFunc(
                nullptr, [](void*) {}, nullptr) == hipSuccess);
    REQUIRE(hipEventRecord(from_b.get(), b.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(a.get(), from_b.get(), 0) == hipSuccess);
  }
  CHECK(hipDeviceSynchronize() == hipSuccess);
}
