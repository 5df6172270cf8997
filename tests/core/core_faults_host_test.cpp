// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/runtime/stream_pool.hpp>
#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

// On a device that is not the current one, so that switching devices is swept as well.
constexpr device_ref other_device{1};

TEST_CASE("device_ref: a question that fails leaves the current device") {
  fault_sweep{"free_memory"}.run([] { static_cast<void>(other_device.free_memory()); });
}

TEST_CASE("stream: a construction that fails leaves nothing") {
  fault_sweep{"stream"}.run([] { const stream value{other_device}; });
}

TEST_CASE("event: a construction that fails leaves nothing") {
  fault_sweep{"event"}.run([] { const event value{other_device}; });
}

TEST_CASE("stream and event: a lack of memory is out_of_memory, which names the call") {
  const auto text_of = [](const char* call, auto make) {
    const planned_fault full{call, 1, hipErrorOutOfMemory};
    try {
      make();
    } catch (const out_of_memory& failure) {
      CHECK(failure.resource() == exhausted::device_memory);
      CHECK(failure.device() == other_device.ordinal());
      CHECK(failure.bytes_requested() == 0);
      CHECK(hipPeekAtLastError() == hipSuccess);
      return std::string{failure.what()};
    }
    return std::string{"none"};
  };
  const std::string free =
      "out of device memory: device 1 has " + format_bytes(other_device.free_memory()) + " free; ";
  CHECK(text_of("hipStreamCreateWithFlags", [] { const stream value{other_device}; }) ==
        free + "hipStreamCreateWithFlags does not say how much it needs: free memory");
  CHECK(text_of("hipEventCreateWithFlags", [] { const event value{other_device}; }) ==
        free + "hipEventCreateWithFlags does not say how much it needs: free memory");
  const planned_fault other{"hipEventCreateWithFlags", 1, hipErrorUnknown};
  CHECK_THROWS_AS(event{other_device}, hip_error);
}

TEST_CASE("device_allocation: a construction that fails leaves nothing") {
  fault_sweep{"device_allocation"}.run([] { const device_allocation value{other_device, 4096}; });
}

TEST_CASE("device_ref: peer access that fails leaves the current device") {
  fault_sweep{"enable_peer_access"}.run([] { other_device.enable_peer_access(device_ref{0}); });
}

TEST_CASE("stream_ref: a wait that fails where nothing can be thrown is reported") {
  const stream stream;
  const error_recorder reported;
  const planned_fault fault{"hipStreamSynchronize", 1, hipErrorUnknown};
  stream.ref().synchronize_no_throw();
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().call == "hipStreamSynchronize");
}

TEST_CASE("stream_pool: a construction that fails leaves nothing") {
  fault_sweep{"stream_pool"}.run([] { const stream_pool value{other_device, 5}; });
}

TEST_CASE("managed memory: a call that fails changes nothing") {
  constexpr std::size_t bytes = 8192;
  void* memory = nullptr;
  REQUIRE(hipMallocManaged(&memory, bytes, hipMemAttachGlobal) == hipSuccess);
  fault_sweep{"advice, prefetch, attachment and questions"}.run([memory] {
    const stream used{other_device};
    advise(memory, bytes, range_advice::set_read_mostly);
    prefetch_async(used, memory, bytes, other_device);
    attach_async(used, memory, attachment::host);
    const bool read_mostly = attributes_of_range(memory, bytes).read_mostly;
    const std::size_t places = accessed_by(memory, bytes).size();
    CHECK(read_mostly);
    CHECK(places == 0);
    used.synchronize();
  });
  CHECK(hipFree(memory) == hipSuccess);
}

struct marked_stream {
  hipvmm::stream stream{other_device};
  hipvmm::event event{other_device};
};

TEST_CASE("event: one that could not be recorded keeps its last mark") {
  fault_sweep{"record"}.run<marked_stream>(
      [](auto& subject) { subject.event.record(subject.stream); },
      [](auto& subject) { CHECK(subject.event.is_done()); },
      [](auto& subject) { subject.event.synchronize(); });
}

TEST_CASE("fill_pattern_async: one that fails touches nothing outside its bytes") {
  constexpr std::size_t total = 300'000;
  constexpr std::size_t margin = 3;
  const byte_vector element = pattern(3, 1);
  const stream stream;
  const auto check_margins = [&](auto& memory) {
    const byte_vector bytes = read_bytes(stream, memory.get(), total);
    CHECK(byte_vector(bytes.begin(), bytes.begin() + margin) == byte_vector(margin, 1));
    CHECK(byte_vector(bytes.end() - margin, bytes.end()) == byte_vector(margin, 1));
  };
  fault_sweep{"fill_pattern_async"}.run(
      [&] {
        auto memory = std::make_unique<device_memory>(total);
        fill_async(stream, memory->get(), 1, total);
        return memory;
      },
      [&](auto& memory) {
        fill_pattern_async(stream, memory.get() + margin, element.data(), 3,
                           (total - 2 * margin) / 3);
      },
      check_margins, check_margins);
}

}  // namespace
}  // namespace hipvmm::test
