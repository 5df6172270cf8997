// SPDX-License-Identifier: MIT
#include "runtime/device_gate.hpp"

#include <hipvmm/runtime/device_allocation.hpp>
#include "core/capture_mode.hpp"
#include "runtime/runtime_rules.hpp"
#include "runtime/stream.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/host_test.hpp"
#include "support/process/descriptor_limit.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

/// Other rules for waits while this lives than those of the device.
class assumed_wait_rules {
 public:
  explicit assumed_wait_rules(detail::device_wait_rules rules) {
    detail::set_device_wait_rules(rules);
  }
  ~assumed_wait_rules() {
    detail::set_device_wait_rules(
        {known_.has(trait::counts_ending_streams), known_.has(trait::free_waits)});
  }
  assumed_wait_rules& operator=(assumed_wait_rules&&) = delete;

 private:
  // Before the rules are set, because finding out sets them as well.
  const capability known_ = capability_of(first_device);
};

TEST_CASE("device_ref: synchronizes otherwise if no memory is free for a wait by hipFree") {
  const assumed_wait_rules rules{{true, true}};
  const calls_of waits{std::array{"hipDeviceSynchronize"}};
  first_device.synchronize();
  CHECK(waits.count() == 0);
  const planned_fault full{"hipMalloc", 1, hipErrorOutOfMemory};
  first_device.synchronize();
  CHECK(full.struck());
  // On NVIDIA by hipHostFree.
  CHECK(waits.count() == (hipvmm::detail::rules_of_runtime().is_cuda ? 0 : 1));
}

/// Waits for the device in a thread of its own while a stream is captured, which goes on.
void check_wait_beside_capture() {
  const stream captured{first_device};
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  std::thread{[] {
    const detail::relaxed_captures relaxed;
    first_device.synchronize();
  }}.join();
  end_capture(captured.get());
}

HIPVMM_TEST_CASE_IN("device_ref: synchronizes by hipFree on NVIDIA before the device was asked",
                    under("cuda-13", "virtual_memory=yes")) {
  const assumed_wait_rules rules{{true, std::nullopt}};
  check_wait_beside_capture();
}

HIPVMM_TEST_CASE_IN("device_ref: synchronizes by hipHostFree if an NVIDIA device is full",
                    under("cuda-13", "virtual_memory=yes")) {
  const assumed_wait_rules rules{{true, true}};
  const calls_of waits{std::array{"hipDeviceSynchronize"}};
  REQUIRE(hipvmm_host_set_faults("hipMalloc error=hipErrorOutOfMemory") == nullptr);
  blocked_stream blocked{first_device};
  opened_by_wait opener{[&] { blocked.release(); }};
  first_device.synchronize();
  CHECK(opener.was_waited_for());
  CHECK(waits.count() == 0);
  check_wait_beside_capture();
  REQUIRE(hipvmm_host_set_faults("") == nullptr);
}

TEST_CASE("relaxed_captures: a thread changes its mode once for objects inside each other") {
  const auto mode_now = [] {
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    CHECK(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
    const hipStreamCaptureMode found = mode;
    CHECK(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
    return found;
  };
  // Cases before may have left another one.
  hipStreamCaptureMode own = hipStreamCaptureModeGlobal;
  REQUIRE(hipThreadExchangeStreamCaptureMode(&own) == hipSuccess);
  REQUIRE(hipvmm_host_set_faults(
              "hipThreadExchangeStreamCaptureMode nth=1 error=hipErrorUnknown") == nullptr);
  CHECK_THROWS_AS(detail::relaxed_captures{}, hip_error);
  REQUIRE(hipvmm_host_set_faults("") == nullptr);
  const call_counter changes{"hipThreadExchangeStreamCaptureMode"};
  {
    const detail::relaxed_captures outer;
    { const detail::relaxed_captures inner; }
    CHECK(changes.count() == 1);
    CHECK(mode_now() == hipStreamCaptureModeRelaxed);
    // Each thread has its own.
    std::thread{[&] {
      const detail::relaxed_captures other;
      CHECK(mode_now() == hipStreamCaptureModeRelaxed);
    }}.join();
  }
  CHECK(changes.count() == 8);
  CHECK(mode_now() == hipStreamCaptureModeGlobal);
  REQUIRE(hipThreadExchangeStreamCaptureMode(&own) == hipSuccess);
}

TEST_CASE("stream: its end waits for its work where waits for the device would overlook it") {
  const calls_of waits{std::array{"hipStreamSynchronize"}};
  {
    const assumed_wait_rules rules{{true, false}};
    const stream counted;
  }
  CHECK(waits.count() == 0);
  {
    const assumed_wait_rules rules{{false, false}};
    const stream overlooked;
  }
  CHECK(waits.count() == 1);
}

TEST_CASE("stream: one that could not be waited for ends when no free waits for its device") {
  const assumed_wait_rules rules{{false, false}};
  const calls_of frees{std::array{"hipFree"}};
  const stream ending;
  std::optional<detail::stream_end> end;
  {
    const planned_fault fault{"hipStreamSynchronize", 1, hipErrorUnknown};
    end.emplace(ending.ref(), first_device);
    REQUIRE(fault.struck());
  }
  blocked_stream busy{first_device};
  std::optional<device_allocation> memory{std::in_place, first_device, MiB};
  std::thread freeing{[&] { memory.reset(); }};
  while (frees.count() == 0) std::this_thread::yield();
  std::atomic<bool> has_begun{false};
  std::thread ends{[&] {
    end->begin();
    has_begun = true;
    end.reset();
  }};
  CHECK_FALSE(happens([&] { return has_begun.load(); }));
  busy.release();
  freeing.join();
  ends.join();
  CHECK(has_begun);
}

TEST_CASE("check_resources: a failure with two descriptors left is a lack of descriptors") {
  const planned_fault fault{"hipMalloc", 1, hipErrorUnknown};
  const descriptor_limit limit{lowest_free_descriptor() + 2};
  const auto error = thrown_by<out_of_memory>([&] {
    const device_allocation refused{first_device, MiB};
  });
  CHECK(error.resource() == exhausted::descriptors);
}

}  // namespace
}  // namespace hipvmm::test
