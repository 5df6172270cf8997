// SPDX-License-Identifier: MIT
// A stranger's HIP host program, which knows nothing of hipvmm: two streams, an event, a pool and
// memory that grows by mapping. Ends with 0 when every byte is right.
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <vector>

#define CHECK_HIP(call)                                                             \
  do {                                                                              \
    const hipError_t result = (call);                                               \
    if (result != hipSuccess) {                                                     \
      std::fprintf(stderr, "pipeline: %s: %s\n", #call, hipGetErrorString(result)); \
      return 1;                                                                     \
    }                                                                               \
  } while (false)

int main() {
  int devices = 0;
  CHECK_HIP(hipGetDeviceCount(&devices));
  CHECK_HIP(hipSetDevice(devices - 1));
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, devices - 1};
  size_t granule = 0;
  CHECK_HIP(hipMemGetAllocationGranularity(&granule, &properties,
                                           hipMemAllocationGranularityRecommended));

  void* base = nullptr;
  constexpr size_t steps = 4;
  CHECK_HIP(hipMemAddressReserve(&base, steps * granule, 0, nullptr, 0));
  auto* const bytes = static_cast<std::byte*>(base);
  hipStream_t filling = nullptr;
  hipStream_t reading = nullptr;
  hipEvent_t filled = nullptr;
  CHECK_HIP(hipStreamCreateWithFlags(&filling, hipStreamNonBlocking));
  CHECK_HIP(hipStreamCreateWithFlags(&reading, hipStreamNonBlocking));
  CHECK_HIP(hipEventCreate(&filled));

  std::vector<std::byte> host(steps * granule);
  for (size_t step = 0; step < steps; ++step) {
    std::byte* const at = bytes + step * granule;
    hipMemGenericAllocationHandle_t chunk{};
    CHECK_HIP(hipMemCreate(&chunk, granule, &properties, 0));
    CHECK_HIP(hipMemMap(at, granule, 0, chunk, 0));
    CHECK_HIP(hipMemRelease(chunk));
    const hipMemAccessDesc access{properties.location, hipMemAccessFlagsProtReadWrite};
    CHECK_HIP(hipMemSetAccess(at, granule, &access, 1));

    void* staging = nullptr;
    CHECK_HIP(hipMallocAsync(&staging, granule, filling));
    CHECK_HIP(hipMemsetAsync(staging, static_cast<int>(step + 1), granule, filling));
    CHECK_HIP(hipMemcpyAsync(at, staging, granule, hipMemcpyDeviceToDevice, filling));
    CHECK_HIP(hipFreeAsync(staging, filling));
    CHECK_HIP(hipEventRecord(filled, filling));
    CHECK_HIP(hipStreamWaitEvent(reading, filled, 0));
    CHECK_HIP(
        hipMemcpyAsync(host.data() + step * granule, at, granule, hipMemcpyDeviceToHost, reading));
  }
  CHECK_HIP(hipDeviceSynchronize());

  for (size_t i = 0; i < host.size(); ++i) {
    if (host[i] == static_cast<std::byte>(i / granule + 1)) continue;
    std::fprintf(stderr, "pipeline: byte %zu is %d\n", i, static_cast<int>(host[i]));
    return 1;
  }
  for (size_t step = 0; step < steps; ++step) {
    CHECK_HIP(hipMemUnmap(bytes + step * granule, granule));
  }
  CHECK_HIP(hipMemAddressFree(base, steps * granule));
  CHECK_HIP(hipEventDestroy(filled));
  CHECK_HIP(hipStreamDestroy(reading));
  CHECK_HIP(hipStreamDestroy(filling));
  return 0;
}
