// SPDX-License-Identifier: MIT
// Retired memory beside streams that other threads are destroying. AMD's hipDeviceSynchronize does
// not count a stream whose hipStreamDestroy has begun.
#include "region/region_test.hpp"

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

// AMD's runtime 6.4.3 keeps the last memory of the stream of such work.
TEST_CASE("region: addresses of a stream that nobody waited for can be reserved in every size") {
  // That is told.
  const error_recorder reported;
  for (const bool retires : {false, true}) {
    CAPTURE(retires);
    void* base = nullptr;
    {
      region used{first_device, 4 * granule()};
      used.commit(0, granule());
      base = used.base();
      hipStream_t foreign = nullptr;
      REQUIRE(hipStreamCreateWithFlags(&foreign, hipStreamNonBlocking) == hipSuccess);
      REQUIRE(hipMemsetAsync(base, 1, granule(), foreign) == hipSuccess);
      REQUIRE(hipStreamDestroy(foreign) == hipSuccess);
      // A region that is retired waits by itself.
      if (retires)
        used.retire();
      else
        REQUIRE(hipDeviceSynchronize() == hipSuccess);
    }
    drain_retired_memory();
    for (const std::size_t granules : {1, 4, 3, 8}) {
      CAPTURE(granules);
      const physical_chunk chunk{first_device, granules * granule()};
      address_reservation addresses{granules * granule(), 0, base};
      mapping mapped{addresses, 0, chunk};
      set_access(mapped.get(), mapped.bytes(), {first_device, access_right::read_write});
      mapped.unmap();
      CHECK_NOTHROW(addresses.free());
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
