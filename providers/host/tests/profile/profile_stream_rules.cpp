// SPDX-License-Identifier: MIT
#include <atomic>
#include <chrono>
#include <thread>

#include "profile_rules.hpp"
#include "providers/host/tests/fixtures.hpp"

// Captures, and the end of streams.
namespace hipvmm::test {
namespace {

constexpr hipError_t good = hipSuccess;
constexpr hipError_t value = hipErrorInvalidValue;
constexpr hipError_t captured = hipErrorStreamCaptureUnsupported;
constexpr hipError_t implicit = hipErrorStreamCaptureImplicit;
constexpr hipError_t lost = hipErrorStreamCaptureInvalidated;
constexpr std::string_view runtimes = "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr";

void begin_capture(const stream& work,
                   hipStreamCaptureMode mode = hipStreamCaptureModeThreadLocal) {
  REQUIRE(hipStreamBeginCapture(work.get(), mode) == hipSuccess);
}

int end_capture(const stream& work) {
  hipGraph_t graph = nullptr;
  const int code = hipStreamEndCapture(work.get(), &graph);
  if (code == good) REQUIRE(hipGraphDestroy(graph) == hipSuccess);
  return code;
}

/// How an allocation in a non-blocking stream ends while a stream with `flags` is captured.
int code_of_allocation_beside_capture(unsigned flags, hipStreamCaptureMode mode, bool from_pool) {
  const stream work{flags};
  const stream other;
  hipMemPool_t pool = nullptr;
  REQUIRE(hipDeviceGetDefaultMemPool(&pool, 0) == hipSuccess);
  begin_capture(work, mode);
  void* pointer = nullptr;
  const int code = from_pool ? hipMallocFromPoolAsync(&pointer, 64, pool, other.get())
                             : hipMallocAsync(&pointer, 64, other.get());
  static_cast<void>(end_capture(work));
  if (code == good) REQUIRE(hipFreeAsync(pointer, other.get()) == hipSuccess);
  REQUIRE(other.wait() == hipSuccess);
  return code;
}

/// Waits until `holds()`, but not for ever, because the condition may never come true.
template <typename Condition>
void wait_a_while(Condition holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{300};
  while (!holds() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

/// Whether hipDeviceSynchronize waits for a stream that another thread has begun to destroy.
int waits_for_ending_stream() {
  hipStream_t leaving = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&leaving, hipStreamNonBlocking) == hipSuccess);
  hipvmm_host_hold_streams();
  REQUIRE(hipLaunchHostFunc(
              leaving, [](void*) {}, nullptr) == hipSuccess);
  std::thread destroying{[leaving] { CHECK(hipStreamDestroy(leaving) == hipSuccess); }};
  // As soon as it ends the stream is unknown; 7.2.4 goes on answering.
  wait_a_while([leaving] {
    unsigned flags = 0;
    return hipStreamGetFlags(leaving, &flags) != hipSuccess;
  });
  std::atomic<bool> waited{false};
  std::thread waiting{[&waited] {
    CHECK(hipDeviceSynchronize() == hipSuccess);
    waited = true;
  }};
  wait_a_while([&waited] { return waited.load(); });
  const bool overlooked = waited;
  hipvmm_host_release_streams();
  destroying.join();
  waiting.join();
  return overlooked ? 0 : 1;
}

const rule rules[] = {
    {"the end of a capture after another thread tried to end it",
     [] {
       const stream work;
       begin_capture(work);
       std::thread{[&] { CHECK(end_capture(work) == hipErrorStreamCaptureWrongThread); }}.join();
       return end_capture(work);
     },
     {good, good, good, good, good, good, good, hipErrorIllegalState},
     "H200"},
    {"the question for an event of a capture that is lost",
     [] {
       const stream work;
       const event inside;
       begin_capture(work);
       REQUIRE(hipEventRecord(inside.get(), work.get()) == hipSuccess);
       REQUIRE(hipStreamQuery(work.get()) == hipErrorStreamCaptureUnsupported);
       const int code = hipEventQuery(inside.get());
       static_cast<void>(end_capture(work));
       return code;
     },
     {hipErrorCapturedEvent, good, good, good, captured, captured, captured, value},
     "ROCm/clr 6.4.3, 7.2.4; H200"},
    {"hipDeviceSynchronize of another device while a stream is captured in relaxed mode",
     [] {
       const stream work;
       begin_capture(work, hipStreamCaptureModeRelaxed);
       REQUIRE(hipSetDevice(1) == hipSuccess);
       const int code = hipDeviceSynchronize();
       REQUIRE(hipSetDevice(0) == hipSuccess);
       static_cast<void>(end_capture(work));
       return code;
     },
     {captured, good, captured, captured, captured, captured, captured, good},
     "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipDeviceSynchronize once more while a stream is captured",
     [] {
       const stream work;
       begin_capture(work);
       static_cast<void>(hipDeviceSynchronize());
       const int code = hipDeviceSynchronize();
       static_cast<void>(end_capture(work));
       return code;
     },
     {captured, good, captured, captured, captured, captured, captured, good},
     "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipMalloc in the thread of a capture that is lost",
     [] {
       const stream work;
       begin_capture(work);
       REQUIRE(hipStreamQuery(work.get()) == hipErrorStreamCaptureUnsupported);
       void* pointer = nullptr;
       const int code = hipMalloc(&pointer, 64);
       static_cast<void>(end_capture(work));
       REQUIRE(hipFree(pointer) == hipSuccess);
       return code;
     },
     {good, captured, captured, captured, captured, captured, captured, good},
     runtimes},
    {"the end of a capture whose thread was refused hipMalloc",
     [] {
       const stream work;
       begin_capture(work);
       void* pointer = nullptr;
       REQUIRE(hipMalloc(&pointer, 64) == hipErrorStreamCaptureUnsupported);
       return end_capture(work);
     },
     {lost, good, lost, lost, lost, lost, lost, lost},
     runtimes},
    {"hipMallocManaged in the thread of a capture",
     [] {
       const stream work;
       begin_capture(work);
       void* pointer = nullptr;
       const int code = hipMallocManaged(&pointer, 64, hipMemAttachGlobal);
       static_cast<void>(end_capture(work));
       REQUIRE(hipFree(pointer) == hipSuccess);
       return code;
     },
     {captured, good, good, good, captured, captured, captured, captured},
     runtimes},
    {"a fill in the null stream while a blocking stream is captured",
     [] {
       const stream work{hipStreamDefault};
       const allocation memory{64, 0};
       begin_capture(work);
       const int code = hipMemsetAsync(memory.at(), 0, 64, nullptr);
       static_cast<void>(end_capture(work));
       return code;
     },
     {implicit, good, good, good, good, good, good, implicit},
     runtimes},
    {"hipMemset while a non-blocking stream is captured in relaxed mode",
     [] {
       const stream work;
       const allocation memory{64, 0};
       begin_capture(work, hipStreamCaptureModeRelaxed);
       const int code = hipMemset(memory.at(), 0, 64);
       static_cast<void>(end_capture(work));
       return code;
     },
     {good, good, implicit, implicit, implicit, implicit, implicit, good},
     runtimes},
    {"hipMallocAsync in a non-blocking stream while a blocking one is captured in relaxed mode",
     [] {
       return code_of_allocation_beside_capture(hipStreamDefault, hipStreamCaptureModeRelaxed,
                                                false);
     },
     {good, good, captured, captured, captured, captured, captured, good},
     runtimes},
    {"hipMallocAsync in a non-blocking stream while another is captured in global mode",
     [] {
       return code_of_allocation_beside_capture(hipStreamNonBlocking, hipStreamCaptureModeGlobal,
                                                false);
     },
     {captured, good, good, good, good, good, good, captured},
     runtimes},
    {"hipMallocFromPoolAsync in a non-blocking stream while a blocking one is captured in global "
     "mode",
     [] {
       return code_of_allocation_beside_capture(hipStreamDefault, hipStreamCaptureModeGlobal, true);
     },
     {captured, good, good, good, good, good, good, captured},
     runtimes},
    {"hipFreeAsync in a non-blocking stream while a blocking one is captured in relaxed mode",
     [] {
       const stream work{hipStreamDefault};
       const stream other;
       void* pointer = nullptr;
       REQUIRE(hipMallocAsync(&pointer, 64, other.get()) == hipSuccess);
       begin_capture(work, hipStreamCaptureModeRelaxed);
       const int code = hipFreeAsync(pointer, other.get());
       static_cast<void>(end_capture(work));
       if (code != good) REQUIRE(hipFreeAsync(pointer, other.get()) == hipSuccess);
       REQUIRE(other.wait() == hipSuccess);
       return code;
     },
     {good, good, captured, captured, captured, captured, captured, good},
     runtimes},
    {"hipStreamWaitEvent of a captured stream for an event that is not captured",
     [] {
       const stream work;
       const stream other;
       const event past;
       REQUIRE(hipEventRecord(past.get(), other.get()) == hipSuccess);
       begin_capture(work);
       const int code = hipStreamWaitEvent(work.get(), past.get(), 0);
       static_cast<void>(end_capture(work));
       return code;
     },
     {hipErrorStreamCaptureIsolation, good, good, good, good, good, good,
      hipErrorStreamCaptureIsolation},
     runtimes},
    {"hipStreamAddCallback in a captured stream",
     [] {
       const stream work;
       begin_capture(work);
       const int code = hipStreamAddCallback(
           work.get(), [](hipStream_t, hipError_t, void*) {}, nullptr, 0);
       static_cast<void>(end_capture(work));
       return code;
     },
     {captured, good, good, good, captured, captured, captured, captured},
     runtimes},
    {"hipEventQuery in the thread of a capture",
     [] {
       const stream work;
       const event past;
       begin_capture(work);
       const int code = hipEventQuery(past.get());
       static_cast<void>(end_capture(work));
       return code;
     },
     {captured, good, good, good, captured, captured, captured, captured},
     runtimes},
    {"hipStreamQuery of another stream, of a thread in thread-local mode beside a global capture",
     [] {
       const stream work;
       const stream other;
       begin_capture(work, hipStreamCaptureModeGlobal);
       int code = 0;
       std::thread{[&] {
         hipStreamCaptureMode mode = hipStreamCaptureModeThreadLocal;
         REQUIRE(hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess);
         code = hipStreamQuery(other.get());
       }}.join();
       static_cast<void>(end_capture(work));
       return code;
     },
     {good, captured, captured, captured, good, good, good, good},
     runtimes},
    {"hipStreamQuery behind a wait for 1 or more at a number of 2^32 - 1",
     [] {
       const stream work;
       const pinned number{8};
       auto* const at = reinterpret_cast<volatile std::uint32_t*>(number.at());
       *at = ~0U;
       REQUIRE(hipStreamWaitValue32(work.get(), number.at(), 1, hipStreamWaitValueGte, ~0U) ==
               hipSuccess);
       int code = hipErrorNotReady;
       wait_a_while([&] {
         code = hipStreamQuery(work.get());
         return code != hipErrorNotReady;
       });
       *at = 1;
       REQUIRE(work.wait() == hipSuccess);
       return code;
     },
     {good, good, good, good, good, good, good, hipErrorNotReady},
     "hip_runtime_api.h; cuda.h",
     decided_by::hardware},
    {"hipDeviceSynchronize waits for a stream whose hipStreamDestroy has begun (1)",
     waits_for_ending_stream,
     {1, 0, 0, 0, 0, 0, 0, 1},
     "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr; Stream::Destroy, "
     "Device::SyncAllStreams in ROCm/clr"},
};

}  // namespace

std::span<const rule> stream_rules() { return rules; }

}  // namespace hipvmm::test
