// SPDX-License-Identifier: MIT
#include <array>
#include <vector>

#include "core/hip_compat.hpp"
#include "mem_pool_fixtures.hpp"
#include "profile_rules.hpp"

// Questions that AMD's runtimes 5.7.1, 6.4.3 and 7.2.4 have answered themselves, on a stand-in for
// ROCr. The columns rocm-6.2, 7.1 and 7.14 follow their neighbours.
namespace hipvmm::test {
namespace {

constexpr int good = hipSuccess;
constexpr int value = hipErrorInvalidValue;
constexpr int handle = hipErrorInvalidHandle;
constexpr int configuration = hipErrorInvalidConfiguration;
constexpr int not_captured = hipErrorStreamCaptureUnsupported;
constexpr int context = hipErrorContextIsDestroyed;

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
     {value, no_answer, good, good, good, good, good, value}},
    {"hipMemMap of a released handle whose memory is gone",
     [] {
       const reservation addresses{granule};
       const hipMemAllocationProp properties = chunk_on(0);
       hipMemGenericAllocationHandle_t made = nullptr;
       REQUIRE(hipMemCreate(&made, granule, &properties, 0) == hipSuccess);
       REQUIRE(hipMemRelease(made) == hipSuccess);
       return int{hipMemMap(addresses.at(), granule, 0, made, 0)};
     },
     {value, no_answer, crashes, crashes, crashes, crashes, crashes, value}},
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
     {value, good, good, good, good, good, good, good}},
    {"hipPointerGetAttributes of memory that HIP does not know",
     [] {
       const int own = 0;
       hipPointerAttribute_t told{};
       return int{hipPointerGetAttributes(&told, &own)};
     },
     {good, value, good, good, good, good, good, good}},
    // 7.2.4 follows the handle of a destroyed stream, 5.7.1 does for copies.
    {"hipStreamSynchronize of a destroyed stream",
     [] { return int{hipStreamSynchronize(destroyed_stream())}; },
     {handle, context, context, context, handle, handle, handle, handle},
     decided_by::chance},
    {"hipStreamDestroy of a destroyed stream",
     [] { return int{hipStreamDestroy(destroyed_stream())}; },
     {handle, context, context, context, handle, handle, handle, handle},
     decided_by::chance},
    {"hipEventRecord in a destroyed stream",
     [] {
       const event mark;
       return int{hipEventRecord(mark.get(), destroyed_stream())};
     },
     {handle, context, context, context, handle, handle, handle, handle},
     decided_by::chance},
    {"hipMemcpyAsync in a destroyed stream",
     [] {
       const allocation here{64};
       std::vector<std::byte> bytes(64);
       return int{
           hipMemcpyAsync(here.at(), bytes.data(), 64, hipMemcpyHostToDevice, destroyed_stream())};
     },
     {handle, context, context, context, handle, handle, handle, handle},
     decided_by::chance},
    {"hipMemsetAsync in a destroyed stream",
     [] {
       const allocation here{64};
       return int{hipMemsetAsync(here.at(), 1, 64, destroyed_stream())};
     },
     {handle, crashes, crashes, crashes, handle, handle, handle, handle},
     decided_by::chance},
    {"hipEventDestroy of a destroyed event",
     [] { return int{hipEventDestroy(destroyed_event())}; },
     {handle, context, context, context, context, context, context, handle}},
    {"hipEventRecord of a destroyed event",
     [] { return int{hipEventRecord(destroyed_event(), nullptr)}; },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle}},
    {"hipEventQuery of a destroyed event",
     [] { return int{hipEventQuery(destroyed_event())}; },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle}},
    {"hipEventSynchronize of a destroyed event",
     [] { return int{hipEventSynchronize(destroyed_event())}; },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle}},
    {"hipEventElapsedTime since a destroyed event",
     [] {
       const event mark;
       float milliseconds = 0;
       REQUIRE(hipEventRecord(mark.get(), nullptr) == hipSuccess);
       return int{hipEventElapsedTime(&milliseconds, destroyed_event(), mark.get())};
     },
     {handle, crashes, crashes, crashes, crashes, crashes, crashes, handle}},
    {"hipStreamWaitEvent for a destroyed event",
     [] { return int{hipStreamWaitEvent(nullptr, destroyed_event(), 0)}; },
     {handle, crashes, good, good, good, good, good, handle}},
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
     {not_captured, good, good, good, good, good, good, not_captured}},
    {"hipStreamWriteValue32 with flags",
     [] {
       const pinned number{8};
       const int code = hipStreamWriteValue32(nullptr, number.at(), 5, 1);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value}},
    {"hipStreamWaitValue64 of a number that is not aligned",
     [] {
       const pinned number{16};
       const int code = hipStreamWaitValue64(nullptr, number.at(4), 0, hipStreamWaitValueEq, ~0ULL);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value}},
    {"bytes that hipPointerGetAttribute writes for the size of a range",
     [] {
       const allocation here{64};
       std::array<unsigned char, 8> told{};
       told.fill(0xCD);
       REQUIRE(hipPointerGetAttribute(told.data(), HIP_POINTER_ATTRIBUTE_RANGE_SIZE, here.at()) ==
               hipSuccess);
       return told[7] == 0xCD ? 4 : 8;
     },
     {8, 4, 4, 4, 4, 4, 4, 8}},
    {"hipIpcGetEventHandle of an event that is not interprocess",
     [] {
       const event plain{hipEventDisableTiming};
       hipIpcEventHandle_t exported{};
       return int{hipIpcGetEventHandle(&exported, plain.get())};
     },
     {configuration, configuration, configuration, configuration, configuration, configuration,
      configuration, handle}},
    {"hipStreamGetFlags of the null stream",
     [] {
       unsigned flags = 0;
       return int{hipStreamGetFlags(nullptr, &flags)};
     },
     {value, value, value, value, value, value, value, good}},
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
      hipErrorHostMemoryAlreadyRegistered}},
    {"a limit beyond the enumeration",
     [] {
       std::size_t bytes = 0;
       return int{
           hipDeviceGetLimit(&bytes, not_an_enumerator<hipLimit_t>(hip_compat::limit_range))};
     },
     {value, value, value, value, value, value, value, hipErrorUnsupportedLimit}},
    {"a fill of a peer's hipMalloc memory without peer access",
     [] {
       const allocation of_1{64, 1};
       const int code = hipMemset(of_1.at(), 1, 64);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, value}},
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
     decided_by::hardware},
};

}  // namespace

std::span<const rule> runtime_rules() { return rules; }

}  // namespace hipvmm::test
