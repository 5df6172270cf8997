// SPDX-License-Identifier: MIT
#include "raw_sleep.hpp"

#include <cstdio>
#include <utility>

#include "bench/sharing/raw_memory.hpp"

namespace bench {
namespace {

void complain(hipError_t result, const char* call) {
  if (result != hipSuccess)
    std::fprintf(stderr, "sleep_bench: %s failed: %s\n", call, hipGetErrorString(result));
}

}  // namespace

raw_sleep::raw_sleep(hipvmm::device_ref device, std::size_t bytes, std::size_t chunk)
    : device_{device}, chunk_{chunk}, handles_(bytes / chunk) {
  require(hipMemAddressReserve(&base_, handles_.size() * chunk_, 0, nullptr, 0),
          "hipMemAddressReserve");
}

raw_sleep::~raw_sleep() {
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    if (handles_[i] == nullptr) continue;
    complain(hipMemUnmap(at(i), chunk_), "hipMemUnmap");
    complain(hipMemRelease(handles_[i]), "hipMemRelease");
  }
  complain(hipMemAddressFree(base_, handles_.size() * chunk_), "hipMemAddressFree");
}

void raw_sleep::wake_chunk(std::size_t index) {
  hipMemAllocationProp property{};
  property.type = hipMemAllocationTypePinned;
  property.location.type = hipMemLocationTypeDevice;
  property.location.id = device_.ordinal();
  hipMemGenericAllocationHandle_t handle = nullptr;
  require(hipMemCreate(&handle, chunk_, &property, 0), "hipMemCreate");
  const hipError_t mapped = hipMemMap(at(index), chunk_, 0, handle, 0);
  if (mapped != hipSuccess) complain(hipMemRelease(handle), "hipMemRelease");
  require(mapped, "hipMemMap");
  handles_[index] = handle;
  const hipMemAccessDesc access{property.location, hipMemAccessFlagsProtReadWrite};
  require(hipMemSetAccess(at(index), chunk_, &access, 1), "hipMemSetAccess");
}

void raw_sleep::sleep_chunk(std::size_t index) {
  require(hipMemUnmap(at(index), chunk_), "hipMemUnmap");
  require(hipMemRelease(std::exchange(handles_[index], nullptr)), "hipMemRelease");
}

void raw_sleep::wake() {
  for (std::size_t i = 0; i < handles_.size(); ++i) wake_chunk(i);
}

void raw_sleep::sleep() {
  for (std::size_t i = 0; i < handles_.size(); ++i) sleep_chunk(i);
}

raw_pinned::raw_pinned(std::size_t bytes) {
  require(hipHostMalloc(&start_, bytes, hipHostMallocDefault), "hipHostMalloc");
}

raw_pinned::~raw_pinned() {
  if (start_ != nullptr) complain(hipHostFree(start_), "hipHostFree");
}

raw_pinned::raw_pinned(raw_pinned&& other) noexcept
    : start_{std::exchange(other.start_, nullptr)} {}

void copy_async(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                hipvmm::stream_ref stream) {
  require(hipMemcpyAsync(to, from, bytes, kind, stream.get()), "hipMemcpyAsync");
}

void copy_now(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
              hipvmm::stream_ref stream) {
  copy_async(to, from, bytes, kind, stream);
  require(hipStreamSynchronize(stream.get()), "hipStreamSynchronize");
}

}  // namespace bench
