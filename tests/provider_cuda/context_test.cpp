// SPDX-License-Identifier: MIT
#include <cuda.h>
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <functional>
#include <thread>

namespace {

CUcontext current() {
  CUcontext context = nullptr;
  REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  return context;
}

CUdevice device_of(int ordinal) {
  CUdevice device = 0;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGet(&device, ordinal) == CUDA_SUCCESS);
  return device;
}

bool is_active(int ordinal) {
  unsigned flags = 0;
  int active = 0;
  REQUIRE(cuDevicePrimaryCtxGetState(device_of(ordinal), &flags, &active) == CUDA_SUCCESS);
  return active != 0;
}

/// The primary context of a device, as the CUDA runtime gets it.
class primary {
 public:
  explicit primary(int ordinal) : device_{device_of(ordinal)} {
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, device_) == CUDA_SUCCESS);
  }
  ~primary() { CHECK(cuDevicePrimaryCtxRelease(device_) == CUDA_SUCCESS); }
  primary& operator=(primary&&) = delete;
  [[nodiscard]] CUcontext get() const { return context_; }

 private:
  CUdevice device_;
  CUcontext context_ = nullptr;
};

/// A context of the application's own, current while it lives.
class own_context {
 public:
  own_context() {
#if CUDA_VERSION >= 13000
    REQUIRE(cuCtxCreate(&context_, nullptr, 0, device_of(0)) == CUDA_SUCCESS);
#else
    REQUIRE(cuCtxCreate(&context_, 0, device_of(0)) == CUDA_SUCCESS);
#endif
  }
  ~own_context() { CHECK(cuCtxDestroy(context_) == CUDA_SUCCESS); }
  own_context& operator=(own_context&&) = delete;
  [[nodiscard]] CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};

/// Runs in a thread of its own: the current device belongs to a thread.
void in_new_thread(const std::function<void()>& body) { std::thread{body}.join(); }

void use_hip() {
  void* memory = nullptr;
  hipStream_t stream = nullptr;
  REQUIRE(hipMalloc(&memory, 4096) == hipSuccess);
  REQUIRE(hipStreamCreate(&stream) == hipSuccess);
  CHECK(hipMemsetAsync(memory, 1, 4096, stream) == hipSuccess);
  CHECK(hipStreamSynchronize(stream) == hipSuccess);
  CHECK(hipDeviceSynchronize() == hipSuccess);
  CHECK(hipStreamDestroy(stream) == hipSuccess);
  CHECK(hipFree(memory) == hipSuccess);
  CHECK(hipFree(&memory) == hipErrorInvalidValue);
}

}  // namespace

TEST_CASE("context: of the application's own is current again after every call") {
  const own_context mine;
  use_hip();
  CHECK(current() == mine.get());
  REQUIRE(hipSetDevice(0) == hipSuccess);
  CHECK(current() == mine.get());
  int device = -1;
  REQUIRE(hipGetDevice(&device) == hipSuccess);
  CHECK(device == 0);
}

TEST_CASE("context: a thread that has none has the device's behind a call that needs the device") {
  const primary first{0};
  in_new_thread([&] {
    use_hip();
    CHECK(current() == first.get());
  });
  in_new_thread([&] {
    void* memory = nullptr;
    REQUIRE(hipMallocAsync(&memory, 4096, nullptr) == hipSuccess);
    CHECK(current() == first.get());
    CHECK(hipFreeAsync(memory, nullptr) == hipSuccess);
  });
  in_new_thread([&] {
    hipStreamCaptureStatus status{};
    REQUIRE(hipStreamIsCapturing(nullptr, &status) == hipSuccess);
    CHECK(current() == first.get());
  });
}

TEST_CASE("context: the memory that a thread allocates is known to the CUDA driver there") {
  const primary first{0};
  in_new_thread([] {
    hipMemAllocationProp properties{};
    properties.type = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    std::size_t bytes = 0;
    REQUIRE(hipMemGetAllocationGranularity(&bytes, &properties,
                                           hipMemAllocationGranularityMinimum) == hipSuccess);
    void* address = nullptr;
    hipMemGenericAllocationHandle_t chunk{};
    hipMemAccessDesc access{};
    access.location = properties.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    REQUIRE(hipMemAddressReserve(&address, bytes, 0, nullptr, 0) == hipSuccess);
    REQUIRE(hipMemCreate(&chunk, bytes, &properties, 0) == hipSuccess);
    REQUIRE(hipMemMap(address, bytes, 0, chunk, 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(address, bytes, &access, 1) == hipSuccess);
    CUdeviceptr found = 0;
    CHECK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS);
    CHECK(found == reinterpret_cast<CUdeviceptr>(address));
    CHECK(hipMemUnmap(address, bytes) == hipSuccess);
    CHECK(hipMemRelease(chunk) == hipSuccess);
    CHECK(hipMemAddressFree(address, bytes) == hipSuccess);
  });
}

TEST_CASE("context: setting the device makes its primary context current") {
  const primary first{0};
  in_new_thread([&] {
    REQUIRE(hipSetDevice(0) == hipSuccess);
    CHECK(current() == first.get());
    use_hip();
    CHECK(current() == first.get());
  });
}

TEST_CASE("context: the current device is the one whose primary context is current") {
  int count = 0;
  REQUIRE(hipGetDeviceCount(&count) == hipSuccess);
  const int last = count - 1;
  const primary other{last};
  in_new_thread([&] {
    REQUIRE(cuCtxSetCurrent(other.get()) == CUDA_SUCCESS);
    int device = -1;
    REQUIRE(hipGetDevice(&device) == hipSuccess);
    CHECK(device == last);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    REQUIRE(hipGetDevice(&device) == hipSuccess);
    CHECK(device == 0);
  });
}

TEST_CASE(
    "context: what does not depend on the device makes none, nor does going back to device 0") {
  if (is_active(0)) {
    MESSAGE("not tested: device 0 has a context, so run this case by itself: -tc='*going back*'");
    return;
  }
  int count = 0;
  REQUIRE(hipGetDeviceCount(&count) == hipSuccess);
  if (count < 2) {
    MESSAGE("not tested: there is one device");
    return;
  }
  in_new_thread([] {
    REQUIRE(hipSetDevice(1) == hipSuccess);
    void* memory = nullptr;
    hipEvent_t event = nullptr;
    REQUIRE(hipMalloc(&memory, 4096) == hipSuccess);
    REQUIRE(hipEventCreateWithFlags(&event, hipEventDisableTiming) == hipSuccess);
    in_new_thread([&] {
      CHECK(hipEventQuery(event) == hipSuccess);
      CHECK(hipEventSynchronize(event) == hipSuccess);
      CHECK(hipEventDestroy(event) == hipSuccess);
      CHECK(hipFree(memory) == hipSuccess);
      CHECK(hipHostFree(nullptr) == hipSuccess);
      CHECK(hipGraphDestroy(nullptr) == hipErrorInvalidValue);
      CHECK(current() == nullptr);
      REQUIRE(hipSetDevice(1) == hipSuccess);
      REQUIRE(hipSetDevice(0) == hipSuccess);
      CHECK(current() == nullptr);
      int device = -1;
      REQUIRE(hipGetDevice(&device) == hipSuccess);
      CHECK(device == 0);
    });
  });
  unsigned flags = 0;
  int active = -1;
  REQUIRE(hipDevicePrimaryCtxGetState(0, &flags, &active) == hipSuccess);
  CHECK(active == 0);
  CHECK_FALSE(is_active(0));
  CHECK(is_active(1));
}

TEST_CASE("context: memory is the primary context's, whichever is current") {
  const primary first{0};
  const own_context mine;
  void* memory = nullptr;
  REQUIRE(hipMalloc(&memory, 4096) == hipSuccess);
  CUcontext owner = nullptr;
  REQUIRE(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT,
                                reinterpret_cast<CUdeviceptr>(memory)) == CUDA_SUCCESS);
  CHECK(owner == first.get());
  CHECK(hipFree(memory) == hipSuccess);
}

TEST_CASE("stream: one of CUDA's own is HIP's too") {
  const primary first{0};
  in_new_thread([&] {
    REQUIRE(cuCtxSetCurrent(first.get()) == CUDA_SUCCESS);
    CUstream stream = nullptr;
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    unsigned flags = 0;
    CHECK(hipStreamGetFlags(reinterpret_cast<hipStream_t>(stream), &flags) == hipSuccess);
    CHECK(flags == hipStreamNonBlocking);
    CHECK(hipStreamSynchronize(reinterpret_cast<hipStream_t>(stream)) == hipSuccess);
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  });
}

TEST_CASE("host function: runs behind the work ahead of it") {
  void* memory = nullptr;
  void* host = nullptr;
  hipStream_t stream = nullptr;
  REQUIRE(hipMalloc(&memory, 4096) == hipSuccess);
  REQUIRE(hipHostMalloc(&host, 4096, hipHostMallocDefault) == hipSuccess);
  REQUIRE(hipStreamCreate(&stream) == hipSuccess);
  struct look {
    const unsigned char* at;
    int seen;
  } looked{static_cast<unsigned char*>(host), -1};
  REQUIRE(hipMemsetAsync(memory, 9, 4096, stream) == hipSuccess);
  REQUIRE(hipMemcpyAsync(host, memory, 4096, hipMemcpyDeviceToHost, stream) == hipSuccess);
  const hipHostFn_t function = [](void* passed) {
    look& into = *static_cast<look*>(passed);
    into.seen = into.at[4095];
  };
  REQUIRE(hipLaunchHostFunc(stream, function, &looked) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream) == hipSuccess);
  CHECK(looked.seen == 9);
  CHECK(hipLaunchHostFunc(stream, nullptr, nullptr) == hipErrorInvalidValue);
  CHECK(hipStreamDestroy(stream) == hipSuccess);
  CHECK(hipHostFree(host) == hipSuccess);
  CHECK(hipFree(memory) == hipSuccess);
}
