// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>
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
constexpr hipError_t unsupported = hipErrorNotSupported;
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

/// The negative code if it is refused.
int attribute_or_code(hipDeviceAttribute_t which) {
  int answer = no_answer;
  const hipError_t code = hipDeviceGetAttribute(&answer, which, 0);
  return code == hipSuccess ? answer : -int{code};
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
    {"concurrent kernels (1)",
     [] { return attribute_or_code(hipDeviceAttributeConcurrentKernels); },
     {0, 1, 1, 1, 1, 1, 1, 0},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"priorities of streams",
     [] { return attribute_or_code(hipDeviceAttributeStreamPrioritiesSupported); },
     {0, -value, 1, 1, 1, 1, 1, 0},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"the host's atomics are native",
     [] { return attribute_or_code(hipDeviceAttributeHostNativeAtomicSupported); },
     {0, -value, 1, 1, 1, 1, 1, 0},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"host pointers are those of registered memory",
     [] { return attribute_or_code(hipDeviceAttributeCanUseHostPointerForRegisteredMem); },
     {1, -value, 0, 0, 0, 0, 0, 1},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::rocr},
    {"attributes of a device that are refused, of 1, 7, 12, 14, 20, 22, 25, 32, 42, 53, 55, 62, "
     "70, 72, 73, 75, 76, 79, 80, 84",
     [] {
       int refused = 0;
       for (const int each :
            {1, 7, 12, 14, 20, 22, 25, 32, 42, 53, 55, 62, 70, 72, 73, 75, 76, 79, 80, 84})
         refused += attribute_or_code(static_cast<hipDeviceAttribute_t>(each)) == -value ? 1 : 0;
       return refused;
     },
     {18, 20, 2, 2, 2, 2, 2, 18},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipPointerGetAttribute of the context of hipMalloc memory",
     [] {
       const allocation memory{4096};
       void* found = nullptr;
       return int{hipPointerGetAttribute(&found, HIP_POINTER_ATTRIBUTE_CONTEXT, memory.at())};
     },
     {unsupported, unsupported, good, good, good, good, good, unsupported},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipPointerGetAttribute of the context of pinned memory",
     [] {
       const pinned memory{4096};
       void* found = nullptr;
       return int{hipPointerGetAttribute(&found, HIP_POINTER_ATTRIBUTE_CONTEXT, memory.at())};
     },
     {unsupported, unsupported, value, value, value, value, value, unsupported},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipPointerGetAttributes of null",
     [] {
       hipPointerAttribute_t told{};
       return int{hipPointerGetAttributes(&told, nullptr)};
     },
     {value, value, value, value, value, good, value, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipMemRangeGetAttribute of the coherency of hipMalloc memory",
     [] {
       const allocation memory{4096};
       int told = 0;
       return int{hipMemRangeGetAttribute(&told, sizeof(told), hipMemRangeAttributeCoherencyMode,
                                          memory.at(), 4096)};
     },
     {good, value, value, value, value, value, value, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::rocr},
    {"hipStreamWriteValue32 in a destroyed stream",
     [] {
       const allocation here{64};
       return int{hipStreamWriteValue32(destroyed_stream(), here.at(), 1, 0)};
     },
     {handle, context, context, context, context, context, context, handle},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::chance},
    {"hipMemPoolExportPointer of hipMalloc memory, or a byte, 7, that hipMemPoolImportPointer maps",
     [] {
       const allocation here{4096};
       REQUIRE(hipMemset(here.at(), 7, 4096) == hipSuccess);
       hipMemPoolPtrExportData name{};
       if (const int code{hipMemPoolExportPointer(&name, here.at())}; code != good) return code;
       hipMemPool_t any = nullptr;
       REQUIRE(hipDeviceGetDefaultMemPool(&any, 0) == hipSuccess);
       void* mapped = nullptr;
       REQUIRE(hipMemPoolImportPointer(&mapped, any, &name) == hipSuccess);
       unsigned char seen = 0;
       REQUIRE(hipMemcpy(&seen, mapped, 1, hipMemcpyDeviceToHost) == hipSuccess);
       REQUIRE(hipFree(mapped) == hipSuccess);
       return int{seen};
     },
     {value, 7, 7, 7, 7, 7, 7, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; ROCr 7.2.4 of Debian ends the "
     "process by an assertion",
     decided_by::rocr},
    {"wishes for the addresses behind a reservation of 2 MiB that are all granted, of 20 (1)",
     [] {
       constexpr std::size_t bytes = 2U << 20U;
       std::vector<void*> made;
       int granted = 0;
       for (int i = 0; i < 20; ++i) {
         void* first = nullptr;
         void* next = nullptr;
         if (hipMemAddressReserve(&first, bytes, 0, nullptr, 0) != hipSuccess || first == nullptr)
           return no_answer;
         void* const wish = static_cast<std::byte*>(first) + bytes;
         REQUIRE(hipMemAddressReserve(&next, bytes, 0, wish, 0) == hipSuccess);
         granted += next == wish ? 1 : 0;
         made.insert(made.end(), {first, next});
       }
       for (void* const each : made) REQUIRE(hipMemAddressFree(each, bytes) == hipSuccess);
       return granted == 20 ? 1 : 0;
     },
     {0, no_answer, 1, 1, 1, 1, 1, 0},
     "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr, which aligns as the thunk; ROCr 7.2.4: "
     "in some processes; strict, cuda-13: own, reservations are neighbours",
     decided_by::chance},
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
};

}  // namespace

std::span<const rule> runtime_rules() { return rules; }

}  // namespace hipvmm::test
