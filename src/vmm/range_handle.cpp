// SPDX-License-Identifier: MIT
#include "vmm/range_handle.hpp"

#include <cstring>
#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/hip_compat.hpp"
#include "runtime/check_resources.hpp"

// Older headers lack it, and older runtimes.
extern "C" [[gnu::weak]] hipError_t hipMemGetHandleForAddressRange(
    void* handle, hipDeviceptr_t start, std::size_t bytes,
    hipvmm::hip_compat::range_handle_type type, unsigned long long flags);

namespace hipvmm::detail {

shareable_handle dma_buf_of_range(const void* address, std::size_t bytes, device_ref device) {
  const auto refuse = [&](const std::string& why) {
    return unsupported{"no dma-buf can be made of the " + std::to_string(bytes) + " bytes at " +
                       address_text(address) + " of device " + std::to_string(device.ordinal()) +
                       ": " + why};
  };
  if (&hipMemGetHandleForAddressRange == nullptr)
    throw refuse("this HIP runtime has no hipMemGetHandleForAddressRange");
  hip_compat::range_handle_type type{};
  std::memcpy(&type, &hip_compat::dma_buf_of_range, sizeof type);
  int descriptor = -1;
  const hipError_t result =
      hipMemGetHandleForAddressRange(&descriptor, const_cast<void*>(address), bytes, type, 0);
  if (result == hipErrorNotSupported) {
    clear_last_error();
    throw refuse(
        "hipMemGetHandleForAddressRange says that it is not supported; on NVIDIA it needs the open "
        "kernel modules (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)");
  }
  check_resources(result, "hipMemGetHandleForAddressRange", device, bytes);
  return shareable_handle{descriptor, bytes};
}

}  // namespace hipvmm::detail
