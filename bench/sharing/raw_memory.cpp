// SPDX-License-Identifier: MIT
#include "raw_memory.hpp"
#include "src/runtime/runtime_rules.hpp"

#include <cstdint>
#include <cstdio>

#include <hipvmm/core/error.hpp>

namespace bench {
namespace {

void report(hipError_t result, const char* call) {
  if (result != hipSuccess)
    std::fprintf(stderr, "sharing_bench: %s failed: %s\n", call, hipGetErrorString(result));
}

hipMemLocation location_of(hipvmm::device_ref device) {
  hipMemLocation result{};
  result.type = hipMemLocationTypeDevice;
  result.id = device.ordinal();
  return result;
}

}  // namespace

void require(hipError_t result, const char* call) {
  if (result != hipSuccess)
    throw hipvmm::hip_error{static_cast<int>(result), call, __FILE__, __LINE__};
}

raw_memory::raw_memory(hipvmm::device_ref device, std::size_t max_bytes, std::size_t max_chunks)
    : device_{device}, max_bytes_{max_bytes} {
  chunks_.reserve(max_chunks);
  require(hipMemAddressReserve(&base_, max_bytes, 0, nullptr, 0), "hipMemAddressReserve");
}

raw_memory::~raw_memory() {
  std::size_t offset = 0;
  for (const auto& [handle, bytes] : chunks_) {
    if (offset < committed_) report(hipMemUnmap(at(offset), bytes), "hipMemUnmap");
    report(hipMemRelease(handle), "hipMemRelease");
    offset += bytes;
  }
  report(hipMemAddressFree(base_, max_bytes_), "hipMemAddressFree");
}

hipMemGenericAllocationHandle_t raw_memory::create(hipvmm::device_ref device, std::size_t bytes) {
  hipMemAllocationProp property{};
  property.type = hipMemAllocationTypePinned;
  property.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
  property.location = location_of(device);
  hipMemGenericAllocationHandle_t handle = nullptr;
  require(hipMemCreate(&handle, bytes, &property, 0), "hipMemCreate");
  return handle;
}

void raw_memory::add(std::size_t bytes) { map(create(device_, bytes), bytes); }

void raw_memory::move_to(hipvmm::device_ref to, hipvmm::stream_ref stream) {
  const hipMemAccessDesc access[] = {{location_of(to), hipMemAccessFlagsProtReadWrite},
                                     {location_of(device_), hipMemAccessFlagsProtReadWrite}};
  std::size_t offset = 0;
  for (auto& [handle, bytes] : chunks_) {
    const hipMemGenericAllocationHandle_t fresh = create(to, bytes);
    void* aside = nullptr;
    require(hipMemAddressReserve(&aside, bytes, 0, nullptr, 0), "hipMemAddressReserve");
    require(hipMemMap(aside, bytes, 0, fresh, 0), "hipMemMap");
    require(hipMemSetAccess(aside, bytes, access, 2), "hipMemSetAccess");
    require(hipMemcpyAsync(aside, at(offset), bytes, hipMemcpyDeviceToDevice, stream.get()),
            "hipMemcpyAsync");
    require(hipStreamSynchronize(stream.get()), "hipStreamSynchronize");
    require(hipMemUnmap(aside, bytes), "hipMemUnmap");
    require(hipMemAddressFree(aside, bytes), "hipMemAddressFree");
    require(hipMemUnmap(at(offset), bytes), "hipMemUnmap");
    require(hipMemRelease(std::exchange(handle, fresh)), "hipMemRelease");
    require(hipMemMap(at(offset), bytes, 0, fresh, 0), "hipMemMap");
    require(hipMemSetAccess(at(offset), bytes, access, 2), "hipMemSetAccess");
    offset += bytes;
  }
}

int raw_memory::export_last() const {
  int descriptor = -1;
  require(hipMemExportToShareableHandle(&descriptor, chunks_.back().first,
                                        hipMemHandleTypePosixFileDescriptor, 0),
          "hipMemExportToShareableHandle");
  return descriptor;
}

void raw_memory::import(int descriptor, std::size_t bytes) {
  hipMemGenericAllocationHandle_t handle = nullptr;
  // Asked once, as a program would.
  static const bool by_value = [] {
    int runtime = 0;
    require(hipRuntimeGetVersion(&runtime), "hipRuntimeGetVersion");
    return hipvmm::detail::runtime_rules{runtime}.imports_descriptor_by_value;
  }();
  void* const argument =
      by_value ? reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)) : &descriptor;
  require(hipMemImportFromShareableHandle(&handle, argument, hipMemHandleTypePosixFileDescriptor),
          "hipMemImportFromShareableHandle");
  map(handle, bytes);
}

void raw_memory::map(hipMemGenericAllocationHandle_t handle, std::size_t bytes) {
  chunks_.emplace_back(handle, bytes);  // now, so that any failure releases it
  require(hipMemMap(at(committed_), bytes, 0, handle, 0), "hipMemMap");
  committed_ += bytes;
  const hipMemAccessDesc access{location_of(device_), hipMemAccessFlagsProtReadWrite};
  require(hipMemSetAccess(at(committed_ - bytes), bytes, &access, 1), "hipMemSetAccess");
}

void raw_memory::set_access(const std::vector<hipvmm::device_ref>& devices,
                            hipMemAccessFlags right) const {
  std::vector<hipMemAccessDesc> access;
  for (const hipvmm::device_ref device : devices) access.push_back({location_of(device), right});
  std::size_t offset = 0;
  for (const auto& [handle, bytes] : chunks_) {
    require(hipMemSetAccess(at(offset), bytes, access.data(), access.size()), "hipMemSetAccess");
    offset += bytes;
  }
}

}  // namespace bench
