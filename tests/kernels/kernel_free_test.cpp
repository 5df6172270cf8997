// SPDX-License-Identifier: MIT
// Could a thread of the library wait for a device by hipFree, which no capture forbids a thread in
// relaxed mode? hipDeviceSynchronize costs a capture that is open on the device.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <string>
#include <thread>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "kernels/kernels.hpp"
#include "provider_semantics/graph_fixtures.hpp"
#include "support/device_memory.hpp"

using namespace hipvmm;
using namespace hipvmm::test;

namespace {

// About a second on an H200: far longer than a free that waits for nothing.
constexpr unsigned rounds_to_see = 5000;

struct free_beside_work {
  hipError_t code = hipErrorUnknown;
  bool waited = false;  ///< it returned only after the kernel was told to end
  hipError_t end_of_capture = hipErrorUnknown;
};

/// Frees `bytes` bytes in a relaxed thread while a kernel runs in one stream and another one is
/// captured.
free_beside_work free_beside_kernel_and_capture(std::size_t bytes) {
  const stream busy{first_device};
  const own_stream captured;
  const pinned_memory words{2 * sizeof(unsigned)};
  auto* const stop = reinterpret_cast<volatile unsigned*>(words.get());
  auto* const rounds = reinterpret_cast<volatile unsigned*>(words.get()) + 1;
  *stop = 0;
  *rounds = 0;
  constexpr std::size_t count = 100'000;
  const device_memory elements{count * sizeof(unsigned)};
  void* freed = nullptr;
  REQUIRE(hipMalloc(&freed, bytes) == hipSuccess);
  REQUIRE(launch_count_until(reinterpret_cast<unsigned*>(elements.get()), count, stop,
                             const_cast<unsigned*>(rounds), busy.get()) == 0);
  while (*rounds == 0 && !busy.is_done()) std::this_thread::yield();

  free_beside_work result;
  begin_capture(captured.get(), hipStreamCaptureModeGlobal);
  std::atomic<bool> told_to_end{false};
  std::promise<void> returned;
  std::future<void> free_returned = returned.get_future();
  std::thread relaxed{[&] {
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    result.code = hipThreadExchangeStreamCaptureMode(&mode);
    if (result.code == hipSuccess) result.code = hipFree(freed);
    result.waited = told_to_end;
    returned.set_value();
  }};
  // The kernel is the clock. It ends by itself after some seconds in any case.
  const auto is_back = [&] {
    return free_returned.wait_for(std::chrono::milliseconds{1}) == std::future_status::ready;
  };
  // An emulator needs minutes for those rounds.
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds{3};
  while (!is_back() && *rounds < rounds_to_see && std::chrono::steady_clock::now() < late) {
  }
  told_to_end = true;
  *stop = 1;
  relaxed.join();
  result.end_of_capture = end_capture(captured.get());
  busy.synchronize();
  CHECK(*rounds > 0);
  return result;
}

}  // namespace

TEST_CASE("hipFree: in a relaxed thread waits for kernels and costs no capture") {
  // HIP makes small blocks out of larger ones, and may free them in another way than large ones.
  for (const std::size_t bytes : {std::size_t{1}, 64 * MiB}) {
    const free_beside_work found = free_beside_kernel_and_capture(bytes);
    MESSAGE(format_bytes(bytes) << ": hipFree gave " << std::string{hipGetErrorName(found.code)}
                                << std::string{found.waited ? " after" : " before"}
                                << " the kernel's end, the end of the capture "
                                << std::string{hipGetErrorName(found.end_of_capture)});
    CHECK(found.code == hipSuccess);
    CHECK(found.waited);
    CHECK(found.end_of_capture == hipSuccess);
  }
}
