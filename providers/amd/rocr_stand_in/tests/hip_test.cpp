// SPDX-License-Identifier: MIT
// The stand-in below AMD's own HIP runtime.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <hip/hip_runtime_api.h>

#include "rocr_stand_in.h"
#include "support/child.hpp"

#define HIP(call) EXPECT((call) == hipSuccess)

namespace {

using namespace test;

constexpr std::size_t MiB = 1 << 20;

// 5.7 has no virtual memory on Linux.
bool has_virtual_memory() { return HIP_VERSION_MAJOR >= 6; }

#if HIP_VERSION_MAJOR >= 6
void* map_on(int device, std::size_t bytes) {
  hipMemAllocationProp wanted{};
  wanted.type = hipMemAllocationTypePinned;
  wanted.location = {hipMemLocationTypeDevice, device};
  hipMemGenericAllocationHandle_t handle{};
  HIP(hipMemCreate(&handle, bytes, &wanted, 0));
  void* at = nullptr;
  HIP(hipMemAddressReserve(&at, bytes, 0, nullptr, 0));
  HIP(hipMemMap(at, bytes, 0, handle, 0));
  hipMemAccessDesc right{};
  right.location = wanted.location;
  right.flags = hipMemAccessFlagsProtReadWrite;
  HIP(hipMemSetAccess(at, bytes, &right, 1));
  return at;
}
#endif

TEST_CASE("hip: fills and copies of every shape have the bytes they should") {
  const outcome got = in_child({}, [] {
    constexpr std::size_t bytes = 3 * MiB + 13;
    unsigned char* device = nullptr;
    unsigned char* other = nullptr;
    HIP(hipMalloc(reinterpret_cast<void**>(&device), bytes));
    HIP(hipMalloc(reinterpret_cast<void**>(&other), bytes));
    std::vector<unsigned char> host(bytes);
    for (std::size_t i = 0; i < bytes; ++i) host[i] = static_cast<unsigned char>(i % 251);
    HIP(hipMemcpy(device, host.data(), bytes, hipMemcpyHostToDevice));
    HIP(hipMemcpy(other + 1, device + 2, bytes - 2, hipMemcpyDeviceToDevice));
    HIP(hipMemset(other + 5, 99, 1001));
    HIP(hipMemsetD32(reinterpret_cast<hipDeviceptr_t>(other + 4096), 0x01020304, 3));
    std::vector<unsigned char> back(bytes);
    HIP(hipMemcpy(back.data(), other, bytes, hipMemcpyDeviceToHost));
    EXPECT(back[1] == host[2]);
    EXPECT(back[4] == host[5]);
    EXPECT(back[5] == 99);
    EXPECT(back[1005] == 99);
    EXPECT(back[1006] == host[1007]);
    EXPECT(std::memcmp(&back[4096], "\4\3\2\1\4\3\2\1\4\3\2\1", 12) == 0);
    EXPECT(back[4108] == host[4109]);
    EXPECT(back[bytes - 2] == host[bytes - 1]);
    for (const std::size_t width : {48u, 52u, 53u}) {
      HIP(hipMemset(other, 0, 4096));
      HIP(hipMemcpy2D(other, 80, device, 64, width, 10, hipMemcpyDeviceToDevice));
      HIP(hipMemcpy(back.data(), other, 4096, hipMemcpyDeviceToHost));
      EXPECT(std::memcmp(&back[80 * 9], &host[64 * 9], width) == 0);
      EXPECT(back[80 * 9 + width] == 0);
    }
    HIP(hipMemset2D(other, 64, 7, 33, 4));
    HIP(hipMemcpy(back.data(), other, 256, hipMemcpyDeviceToHost));
    EXPECT(back[64 * 3 + 32] == 7);
    EXPECT(back[64 * 2 + 33] != 7);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: rows of hipMallocPitch and hipMalloc3D are of 256 bytes") {
  const outcome got = in_child({}, [] {
    void* at = nullptr;
    std::size_t pitch = 0;
    HIP(hipMallocPitch(&at, &pitch, 100, 5));
    EXPECT(pitch == 256);
    HIP(hipMemset2D(at, pitch, 3, 100, 5));
    unsigned char back[500] = {};
    HIP(hipMemcpy2D(back, 100, at, pitch, 100, 5, hipMemcpyDeviceToHost));
    EXPECT(back[0] == 3);
    EXPECT(back[499] == 3);
    HIP(hipFree(at));
    hipPitchedPtr made{};
    HIP(hipMalloc3D(&made, hipExtent{257, 3, 2}));
    EXPECT(made.pitch == 512);
    HIP(hipFree(made.ptr));
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: hipHostRegister of more than is mapped is refused") {
  const outcome got = in_child({}, [] {
    std::vector<char> host(4096);
    EXPECT(hipHostRegister(host.data(), std::size_t{20} << 30, 0) != hipSuccess);
    HIP(hipHostRegister(host.data(), host.size(), 0));
    HIP(hipHostUnregister(host.data()));
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: hipMemGetInfo is right, and memory that is freed is there again") {
  const outcome got = in_child({"MEMORY=1GiB"}, [] {
    std::size_t before = 0;
    std::size_t total = 0;
    HIP(hipFree(nullptr));
    HIP(hipMemGetInfo(&before, &total));
    EXPECT(total == 1024 * MiB);
    for (int i = 0; i < 20; ++i) {
      void* at = nullptr;
      HIP(hipMalloc(&at, 600 * MiB));
      HIP(hipMemset(at, 1, 64 * MiB));
      std::size_t now = 0;
      HIP(hipMemGetInfo(&now, &total));
      EXPECT(now <= before - 600 * MiB);
      void* more = nullptr;
      EXPECT(hipMalloc(&more, 600 * MiB) == hipErrorOutOfMemory);
      HIP(hipFree(at));
    }
    std::size_t after = 0;
    HIP(hipMemGetInfo(&after, &total));
    EXPECT(before - after <= 64 * MiB);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: hipFree beside queued work is no bug, for it waits") {
  const outcome got = in_child({"DELAY_US=2000"}, [] {
    hipStream_t stream{};
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (int i = 0; i < 20; ++i) {
      void* at = nullptr;
      HIP(hipMalloc(&at, MiB));
      HIP(hipMemsetAsync(at, 1, MiB, stream));
      HIP(hipMemsetAsync(at, 2, MiB, stream));
      HIP(hipFree(at));
    }
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: streams, events, pools and graphs of a correct program are no bug") {
  const outcome got = in_child({"DELAY_US=100"}, [] {
    hipStream_t one{};
    hipStream_t two{};
    HIP(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    HIP(hipStreamCreate(&two));
    hipEvent_t event{};
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    for (int i = 0; i < 50; ++i) {
      void* at = nullptr;
      HIP(hipMallocAsync(&at, 100000 + 1000 * static_cast<std::size_t>(i), one));
      HIP(hipMemsetAsync(at, i, 100000, one));
      HIP(hipEventRecord(event, one));
      HIP(hipStreamWaitEvent(two, event, 0));
      unsigned char last = 0;
      HIP(hipMemcpyAsync(&last, static_cast<char*>(at) + 99999, 1, hipMemcpyDeviceToHost, two));
      HIP(hipStreamSynchronize(two));
      EXPECT(last == i);
      HIP(hipFreeAsync(at, one));
    }
    HIP(hipStreamSynchronize(one));
    HIP(hipStreamDestroy(one));
    HIP(hipStreamDestroy(two));
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: the process and a forked child of it end") {
  const outcome got = in_child({}, [] {
    void* at = nullptr;
    HIP(hipMalloc(&at, MiB));
    HIP(hipMemset(at, 1, MiB));
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status));
    EXPECT(std::system("true") == 0);
    HIP(hipMemset(at, 2, MiB));
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("hip: hipMemUnmap under a queued fill of another stream is reported") {
  if (!has_virtual_memory()) return;
#if HIP_VERSION_MAJOR >= 6
  const outcome got = in_child({}, [] {
    void* const at = map_on(0, 2 * MiB);
    hipStream_t stream{};
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    unsigned* gate = nullptr;
    HIP(hipHostMalloc(reinterpret_cast<void**>(&gate), 4096, 0));
    *gate = 0;
    HIP(hipStreamWaitValue32(stream, gate, 1, hipStreamWaitValueEq, ~0u));
    HIP(hipMemsetAsync(at, 1, 4096, stream));
    hipMemUnmap(at, 2 * MiB);
  });
  CHECK(got.reported("unmap of mapping"));
  CHECK(got.reported("fill (kernel __amd_rocclr_fillBufferAligned)"));
#endif
}

TEST_CASE("hip: a fill of a peer's chunk that was granted to its owner only is reported") {
  if (!has_virtual_memory()) return;
#if HIP_VERSION_MAJOR >= 6
  const outcome got = in_child({}, [] {
    void* const at = map_on(0, 2 * MiB);
    void* const from = map_on(1, 2 * MiB);
    HIP(hipSetDevice(0));
    static_cast<void>(hipMemcpyPeer(at, 0, from, 1, 4096));
    HIP(hipDeviceSynchronize());
  });
  CHECK(got.reported("the page is mapped but not granted to the agent"));
#endif
}

}  // namespace
