// SPDX-License-Identifier: MIT
// Retired memory beside streams that other threads are destroying. AMD's hipDeviceSynchronize does
// not count a stream whose hipStreamDestroy has begun.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include <hipvmm/region/region.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "support/devices.hpp"
#include "support/happens.hpp"
#include "support/process/child_process.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

void wait_for_gate(void* gate) { static_cast<std::promise<void>*>(gate)->get_future().wait(); }

/// A region that a stream of its own will fill once the gate opens.
struct region_of_ending_stream {
  std::promise<void> gate;
  hipvmm::region region{first_device, 4 * granule()};
  std::optional<stream> user{std::in_place, first_device};
  std::thread destroying;

  region_of_ending_stream() {
    region.commit(0, granule());
    REQUIRE(hipLaunchHostFunc(user->get(), wait_for_gate, &gate) == hipSuccess);
    fill_async(*user, region.base(), 1, granule());
  }

  void destroy_user_in_another_thread() {
    std::atomic<bool> begun{false};
    destroying = std::thread{[this, &begun] {
      begun = true;
      user.reset();
    }};
    while (!begun) std::this_thread::yield();
    static_cast<void>(happens([] { return false; }));
  }

  void retire_and_check() {
    const std::size_t before = retired_memory().waiting;
    region.retire();
    CHECK_FALSE(happens([before] { return retired_memory().waiting == before; }));
    gate.set_value();
    destroying.join();
    drain_retired_memory();
    CHECK(retired_memory().waiting == 0);
  }
};

// Each also as a child, for retirement_streams_host_test.cpp.
void check_stream_being_destroyed() {
  region_of_ending_stream subject;
  subject.destroy_user_in_another_thread();
  subject.retire_and_check();
}

TEST_CASE("retirement: a stream that another thread is destroying is waited for") {
  check_stream_being_destroyed();
}
HIPVMM_CHILD("a stream is destroyed by another thread") { check_stream_being_destroyed(); }

void check_stream_ending_beside_wait() {
  region_of_ending_stream subject;
  std::atomic<bool> begun{false};
  std::thread waiting{[&begun] {
    begun = true;
    CHECK(hipDeviceSynchronize() == hipSuccess);
  }};
  while (!begun) std::this_thread::yield();
  static_cast<void>(happens([] { return false; }));
  subject.destroy_user_in_another_thread();
  subject.retire_and_check();
  waiting.join();
}

TEST_CASE("retirement: a stream that ends beside an earlier wait for its device is waited for") {
  check_stream_ending_beside_wait();
}
HIPVMM_CHILD("a stream ends beside a wait for its device") { check_stream_ending_beside_wait(); }

void check_captured_stream_being_destroyed() {
  region_of_ending_stream subject;
  REQUIRE(hipStreamBeginCapture(subject.user->get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  subject.destroy_user_in_another_thread();
  subject.retire_and_check();
}

TEST_CASE("retirement: a captured stream that another thread is destroying is waited for") {
  check_captured_stream_being_destroyed();
}
HIPVMM_CHILD("a captured stream is destroyed by another thread") {
  check_captured_stream_being_destroyed();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
