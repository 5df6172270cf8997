// SPDX-License-Identifier: MIT
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/hip_compat.hpp"
#include "profile_rules.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

// Questions that AMD's runtimes 5.7.1, 6.4.3 and 7.2.4 have answered themselves, on a stand-in for
// ROCr. The columns rocm-6.2, 7.1 and 7.14 follow their neighbours.
namespace hipvmm::test {
namespace {

constexpr hipError_t good = hipSuccess;
constexpr hipError_t value = hipErrorInvalidValue;
constexpr hipError_t handle = hipErrorInvalidHandle;
constexpr hipError_t configuration = hipErrorInvalidConfiguration;
constexpr hipError_t not_captured = hipErrorStreamCaptureUnsupported;
constexpr hipError_t context = hipErrorContextIsDestroyed;

constexpr auto posix = hipMemHandleTypePosixFileDescriptor;

// A descriptor as a program passes it that casts an int's address, or part of an array: the lower
// half is right, and the whole is no address.
void* with_other_bits_above(int descriptor) {
  return as_handle<void*>(std::uintptr_t{0x7f12} << 32U | static_cast<unsigned>(descriptor));
}

hipStream_t destroyed_stream() {
  hipStream_t made = nullptr;
  REQUIRE(hipStreamCreate(&made) == hipSuccess);
  REQUIRE(hipStreamDestroy(made) == hipSuccess);
  return made;
}

hipEvent_t destroyed_event() {
  hipEvent_t made = nullptr;
  REQUIRE(hipEventCreate(&made) == hipSuccess);
  REQUIRE(hipEventRecord(made, nullptr) == hipSuccess);
  REQUIRE(hipEventDestroy(made) == hipSuccess);
  return made;
}

/// Work of a stream that ends after 300 ms, or when it is told to.
class slow_function {
 public:
  void submit(hipStream_t stream) {
    REQUIRE(hipLaunchHostFunc(
                stream,
                [](void* given) {
                  auto& self = *static_cast<slow_function*>(given);
                  const auto last =
                      std::chrono::steady_clock::now() + std::chrono::milliseconds{300};
                  while (!self.may_end_ && std::chrono::steady_clock::now() < last)
                    std::this_thread::sleep_for(std::chrono::milliseconds{1});
                  self.has_ended_ = true;
                },
                this) == hipSuccess);
  }
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  /// Waits for the null stream of the device.
  hipError_t end(int device) {
    may_end_ = true;
    REQUIRE(hipSetDevice(device) == hipSuccess);
    const hipError_t code = hipStreamSynchronize(nullptr);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    return code;
  }

 private:
  std::atomic<bool> may_end_{false};
  std::atomic<bool> has_ended_{false};
};

/// Whether hipMemcpy between pinned memory and memory of device 1, made while device 0 is the
/// current one, waits for the null stream of device 1.
bool copy_waits_for_owner(bool to_host) {
  void* host = nullptr;
  void* device = nullptr;
  REQUIRE(hipHostMalloc(&host, 64, 0) == hipSuccess);
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipMalloc(&device, 64) == hipSuccess);
  slow_function slow;
  slow.submit(nullptr);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  REQUIRE(hipMemcpy(to_host ? host : device, to_host ? device : host, 64, hipMemcpyDefault) ==
          hipSuccess);
  const bool waited = slow.has_ended();
  REQUIRE(slow.end(1) == hipSuccess);
  REQUIRE(hipFree(device) == hipSuccess);
  REQUIRE(hipHostFree(host) == hipSuccess);
  return waited;
}

const rule rules[] = {
    {"hipMemMap of a released handle whose memory is mapped",
     [] {
       const reservation addresses{2 * granule};
       const hipMemAllocationProp properties = chunk_on(0);
       hipMemGenericAllocationHandle_t made = nullptr;
       REQUIRE(hipMemCreate(&made, granule, &properties, 0) == hipSuccess);
       REQUIRE(hipMemMap(addresses.at(), granule, 0, made, 0) == hipSuccess);
       REQUIRE(hipMemRelease(made) == hipSuccess);
       const int code = hipMemMap(addresses.at(granule), granule, 0, made, 0);
       if (code == good) REQUIRE(hipMemUnmap(addresses.at(granule), granule) == hipSuccess);
       REQUIRE(hipMemUnmap(addresses.at(), granule) == hipSuccess);
       return code;
     },
     {value, no_answer, good, good, good, good, good, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipMemMap of a released handle whose memory is gone",
     [] {
       const reservation addresses{granule};
       const hipMemAllocationProp properties = chunk_on(0);
       hipMemGenericAllocationHandle_t made = nullptr;
       REQUIRE(hipMemCreate(&made, granule, &properties, 0) == hipSuccess);
       REQUIRE(hipMemRelease(made) == hipSuccess);
       return int{hipMemMap(addresses.at(), granule, 0, made, 0)};
     },
     {value, no_answer, crashes, crashes, crashes, crashes, crashes, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipMemImportFromShareableHandle of a descriptor with other bits above it",
     [] {
       const memory shared{granule, 0, posix};
       int descriptor = -1;
       REQUIRE(hipMemExportToShareableHandle(&descriptor, shared.get(), posix, 0) == hipSuccess);
       hipMemGenericAllocationHandle_t imported = nullptr;
       return int{
           hipMemImportFromShareableHandle(&imported, with_other_bits_above(descriptor), posix)};
     },
     {value, no_answer, crashes, crashes, good, good, good, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::chance},
    {"hipMemPoolImportFromShareableHandle of a descriptor with other bits above it",
     [] {
       const pool shared{pool_on(0, posix)};
       int descriptor = -1;
       REQUIRE(hipMemPoolExportToShareableHandle(&descriptor, shared.get(), posix, 0) ==
               hipSuccess);
       hipMemPool_t imported = nullptr;
       return int{hipMemPoolImportFromShareableHandle(&imported, with_other_bits_above(descriptor),
                                                      posix, 0)};
     },
     {value, good, good, good, good, good, good, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipPointerGetAttributes of memory that HIP does not know",
     [] {
       const int own = 0;
       hipPointerAttribute_t told{};
       return int{hipPointerGetAttributes(&told, &own)};
     },
     {good, value, good, good, good, good, good, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    // 7.2.4 follows the handle of a destroyed stream, 5.7.1 does for copies.
    {"hipStreamSynchronize of a destroyed stream",
     [] { return int{hipStreamSynchronize(destroyed_stream())}; },
     {handle, context, context, context, handle, handle, handle, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr: 7.2.4 goes on with what is "
     "there now, or crashes",
     decided_by::chance},
    {"hipStreamDestroy of a destroyed stream",
     [] { return int{hipStreamDestroy(destroyed_stream())}; },
     {handle, context, context, context, handle, handle, handle, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr: 7.2.4 goes on with what is "
     "there now, or crashes",
     decided_by::chance},
    {"hipEventRecord in a destroyed stream",
     [] {
       const event mark;
       return int{hipEventRecord(mark.get(), destroyed_stream())};
     },
     {handle, context, context, context, handle, handle, handle, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr: 7.2.4 goes on with what is "
     "there now, or crashes",
     decided_by::chance},
    {"hipMemcpyAsync in a destroyed stream",
     [] {
       const allocation here{64};
       std::vector<std::byte> bytes(64);
       return int{
           hipMemcpyAsync(here.at(), bytes.data(), 64, hipMemcpyHostToDevice, destroyed_stream())};
     },
     {handle, context, context, context, handle, handle, handle, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr: 7.2.4 goes on with what is "
     "there now, or crashes",
     decided_by::chance},
    {"hipMemsetAsync in a destroyed stream",
     [] {
       const allocation here{64};
       return int{hipMemsetAsync(here.at(), 1, 64, destroyed_stream())};
     },
     {handle, crashes, crashes, crashes, handle, handle, handle, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::chance},
    {"hipEventDestroy of a destroyed event",
     [] { return int{hipEventDestroy(destroyed_event())}; },
     {handle, context, context, context, context, context, context, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipEventRecord of a destroyed event",
     [] { return int{hipEventRecord(destroyed_event(), nullptr)}; },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipEventQuery of a destroyed event",
     [] { return int{hipEventQuery(destroyed_event())}; },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipEventSynchronize of a destroyed event",
     [] { return int{hipEventSynchronize(destroyed_event())}; },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipEventElapsedTime since a destroyed event",
     [] {
       const event mark;
       float milliseconds = 0;
       REQUIRE(hipEventRecord(mark.get(), nullptr) == hipSuccess);
       return int{hipEventElapsedTime(&milliseconds, destroyed_event(), mark.get())};
     },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipStreamWaitEvent for a destroyed event",
     [] { return int{hipStreamWaitEvent(nullptr, destroyed_event(), 0)}; },
     {handle, crashes, good, good, good, good, good, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipStreamWriteValue32 in a captured stream",
     [] {
       const stream work;
       const pinned number{8};
       hipGraph_t graph = nullptr;
       REQUIRE(hipStreamBeginCapture(work.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
       const int code = hipStreamWriteValue32(work.get(), number.at(), 5, 0);
       if (hipStreamEndCapture(work.get(), &graph) == hipSuccess) {
         REQUIRE(hipGraphDestroy(graph) == hipSuccess);
       }
       REQUIRE(work.wait() == hipSuccess);
       CHECK(*number.at() == std::byte{code == good ? std::uint8_t{5} : std::uint8_t{0}});
       return code;
     },
     {not_captured, good, good, good, good, good, good, not_captured},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipStreamWriteValue32 with flags",
     [] {
       const pinned number{8};
       const int code = hipStreamWriteValue32(nullptr, number.at(), 5, 1);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipStreamWaitValue64 of a number that is not aligned",
     [] {
       const pinned number{16};
       const int code = hipStreamWaitValue64(nullptr, number.at(4), 0, hipStreamWaitValueEq, ~0ULL);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"bytes that hipPointerGetAttribute writes for the size of a range",
     [] {
       const allocation here{64};
       std::array<unsigned char, 8> told{};
       told.fill(0xCD);
       REQUIRE(hipPointerGetAttribute(told.data(), HIP_POINTER_ATTRIBUTE_RANGE_SIZE, here.at()) ==
               hipSuccess);
       return told[7] == 0xCD ? 4 : 8;
     },
     {8, 4, 4, 4, 4, 4, 4, 8},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipIpcGetEventHandle of an event that is not interprocess",
     [] {
       const event plain{hipEventDisableTiming};
       hipIpcEventHandle_t exported{};
       return int{hipIpcGetEventHandle(&exported, plain.get())};
     },
     {configuration, configuration, configuration, configuration, configuration, configuration,
      configuration, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipStreamGetFlags of the null stream",
     [] {
       unsigned flags = 0;
       return int{hipStreamGetFlags(nullptr, &flags)};
     },
     {value, value, value, value, value, value, value, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipHostRegister of what is registered",
     [] {
       std::vector<std::byte> bytes(64);
       REQUIRE(hipHostRegister(bytes.data(), 64, 0) == hipSuccess);
       const int code = hipHostRegister(bytes.data(), 64, 0);
       REQUIRE(hipHostUnregister(bytes.data()) == hipSuccess);
       CHECK(hipHostUnregister(bytes.data()) == hipErrorHostMemoryNotRegistered);
       return code;
     },
     {hipErrorHostMemoryAlreadyRegistered, good, good, good, good, good, good,
      hipErrorHostMemoryAlreadyRegistered},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"a limit beyond the enumeration",
     [] {
       std::size_t bytes = 0;
       return int{
           hipDeviceGetLimit(&bytes, not_an_enumerator<hipLimit_t>(hip_compat::limit_range))};
     },
     {value, value, value, value, value, value, value, hipErrorUnsupportedLimit},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"a fill of a peer's hipMalloc memory without peer access",
     [] {
       const allocation of_1{64, 1};
       const int code = hipMemset(of_1.at(), 1, 64);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipMemcpyPeer with devices that are not those of the memory",
     [] {
       const allocation of_0{64, 0};
       const allocation of_1{64, 1};
       const int code = hipMemcpyPeer(of_0.at(), 1, of_1.at(), 0, 64);
       REQUIRE(hipDeviceSynchronize() == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipMemcpyAsync of no bytes, of an unknown kind",
     [] {
       const allocation memory{64, 0};
       return int{hipMemcpyAsync(memory.at(), memory.at(), 0, not_an_enumerator<hipMemcpyKind>(77),
                                 nullptr)};
     },
     {good, good, hipErrorInvalidMemcpyDirection, hipErrorInvalidMemcpyDirection,
      hipErrorInvalidMemcpyDirection, hipErrorInvalidMemcpyDirection,
      hipErrorInvalidMemcpyDirection, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipMemcpy of an unknown kind from pinned memory",
     [] {
       void* pinned = nullptr;
       REQUIRE(hipHostMalloc(&pinned, 64, hipHostMallocDefault) == hipSuccess);
       const allocation memory{64, 0};
       return int{hipMemcpy(memory.at(), pinned, 64, not_an_enumerator<hipMemcpyKind>(77))};
     },
     {hipErrorInvalidMemcpyDirection, good, hipErrorInvalidMemcpyDirection,
      hipErrorInvalidMemcpyDirection, hipErrorInvalidMemcpyDirection,
      hipErrorInvalidMemcpyDirection, hipErrorInvalidMemcpyDirection,
      hipErrorInvalidMemcpyDirection},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipMemSetAccess of hipMalloc memory for a device that does not exist",
     [] {
       const allocation memory{granule, 0};
       const hipMemAccessDesc wanted{{hipMemLocationTypeDevice, 64},
                                     hipMemAccessFlagsProtReadWrite};
       return int{hipMemSetAccess(memory.at(), granule, &wanted, 1)};
     },
     {value, good, value, value, value, value, value, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"a way of reuse that is set to 4096",
     [] {
       const pool memory;
       int number = 4096;
       REQUIRE(hipMemPoolSetAttribute(memory.get(), hipMemPoolReuseAllowOpportunistic, &number) ==
               hipSuccess);
       REQUIRE(hipMemPoolGetAttribute(memory.get(), hipMemPoolReuseAllowOpportunistic, &number) ==
               hipSuccess);
       return number;
     },
     {1, 0, 0, 0, 0, 0, 0, 1},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"resetting the highest number of reserved bytes",
     [] {
       const pool memory;
       std::uint64_t none = 0;
       return int{hipMemPoolSetAttribute(memory.get(), hipMemPoolAttrReservedMemHigh, &none)};
     },
     {good, value, good, good, good, good, good, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipStreamQuery of a stream captured in relaxed mode, and then the end of its capture",
     [] {
       const stream work;
       REQUIRE(hipStreamBeginCapture(work.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
       REQUIRE(hipStreamQuery(work.get()) == hipErrorStreamCaptureUnsupported);
       hipGraph_t graph = nullptr;
       const int code = hipStreamEndCapture(work.get(), &graph);
       if (graph != nullptr) REQUIRE(hipGraphDestroy(graph) == hipSuccess);
       return code;
     },
     {hipErrorStreamCaptureInvalidated, good, hipErrorStreamCaptureInvalidated,
      hipErrorStreamCaptureInvalidated, hipErrorStreamCaptureInvalidated,
      hipErrorStreamCaptureInvalidated, hipErrorStreamCaptureInvalidated,
      hipErrorStreamCaptureInvalidated},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"hipMemCreate of 7 KiB",
     [] {
       const hipMemAllocationProp properties = chunk_on(0);
       hipMemGenericAllocationHandle_t made = nullptr;
       return int{hipMemCreate(&made, 7168, &properties, 0)};
     },
     {value, good, value, value, value, value, value, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; CUDA"},
    {"a copy from the host, in a stream of device 1, to memory that device 0 alone may use",
     [] {
       const mapped of_0{granule};
       const stream of_1{hipStreamNonBlocking, 1};
       std::vector<std::byte> bytes(64);
       const int code =
           hipMemcpyAsync(of_0.at(), bytes.data(), 64, hipMemcpyHostToDevice, of_1.get());
       REQUIRE(of_1.wait() == hipSuccess);
       return code;
     },
     {value, no_answer, good, good, value, value, value, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::hardware},
    {"a copy to the host, in a stream of device 1, from memory of device 0 that 1 alone may use",
     [] {
       const mapped of_0{granule, {1}};
       const stream of_1{hipStreamNonBlocking, 1};
       std::vector<std::byte> bytes(64);
       const int code =
           hipMemcpyAsync(bytes.data(), of_0.at(), 64, hipMemcpyDeviceToHost, of_1.get());
       REQUIRE(of_1.wait() == hipSuccess);
       return code;
     },
     {good, no_answer, value, value, good, good, good, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::hardware},
    {"copies of hipMemcpy between the host and memory of device 1, while device 0 is the current "
     "one, "
     "that wait for the null stream of device 1",
     [] { return int{copy_waits_for_owner(true)} + int{copy_waits_for_owner(false)}; },
     {0, 2, 2, 2, 2, 2, 2, 0},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; cuda-13: not asked of CUDA"},
};

}  // namespace

std::span<const rule> runtime_rules() { return rules; }

}  // namespace hipvmm::test
