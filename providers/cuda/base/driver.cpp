// SPDX-License-Identifier: MIT
#include "base/driver.hpp"

#include <algorithm>

#include "base/failure.hpp"
#include "base/pushed_context.hpp"

namespace hipvmm::cuda_provider {
namespace {

/// Waits for all work of the current context. cuCtxSynchronize crashes beside captures of other
/// threads (driver 580), and invalidates them.
void wait_by_free() {
  CUdeviceptr device_memory = 0;
  const CUresult made = cuMemAlloc(&device_memory, 1);
  if (made == CUDA_SUCCESS) return check(cuMemFree(device_memory));
  if (made != CUDA_ERROR_OUT_OF_MEMORY) check(made);
  void* host_memory = nullptr;
  check(cuMemAllocHost(&host_memory, 1));
  check(cuMemFreeHost(host_memory));
}

bool means_no_device(CUresult result) noexcept {
  return result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_STUB_LIBRARY;
}

}  // namespace

driver& driver::get() {
  // Never destroyed: the program's own destructors may still call HIP.
  static driver& only = *new driver;
  return only;
}

driver::driver() : status_{cuInit(0)} {
  if (means_no_device(status_))
    status_ = CUDA_SUCCESS;
  else if (status_ == CUDA_SUCCESS)
    status_ = cuDeviceGetCount(&device_count_);
  if (status_ != CUDA_SUCCESS) device_count_ = 0;
  device_count_ = std::min(device_count_, most_devices);
  for (int i = 0; i < device_count_ && status_ == CUDA_SUCCESS; ++i) {
    status_ = cuDeviceGet(&devices_[static_cast<std::size_t>(i)], i);
  }
}

CUdevice driver::device(int ordinal) const {
  require(has_device(ordinal), hipErrorInvalidDevice);
  return devices_[static_cast<std::size_t>(ordinal)];
}

int driver::ordinal_of(CUdevice device) const {
  const auto* const end = devices_.begin() + device_count_;
  const auto* const found = std::find(devices_.begin(), end, device);
  require(found != end, hipErrorInvalidDevice);
  return static_cast<int>(found - devices_.begin());
}

CUcontext driver::primary(int ordinal) {
  const CUdevice wanted = device(ordinal);
  std::atomic<CUcontext>& kept = primaries_[static_cast<std::size_t>(ordinal)];
  if (const CUcontext known = kept.load(std::memory_order_acquire)) return known;
  CUcontext fresh = nullptr;
  check(cuDevicePrimaryCtxRetain(&fresh, wanted));
  CUcontext expected = nullptr;
  if (!kept.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) {
    // Another thread was first. There is one primary context: only its count is one too high.
    static_cast<void>(cuDevicePrimaryCtxRelease(wanted));
  }
  return fresh;
}

bool driver::has_primary(int ordinal) const {
  const CUdevice asked = device(ordinal);
  if (primaries_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire) != nullptr)
    return true;
  unsigned flags = 0;
  int active = 0;
  check(cuDevicePrimaryCtxGetState(asked, &flags, &active));
  return active != 0;
}

CUcontext driver::any_primary(int ordinal) {
  if (has_primary(ordinal)) return primary(ordinal);
  for (const std::atomic<CUcontext>& each : primaries_) {
    if (const CUcontext used = each.load(std::memory_order_acquire)) return used;
  }
  return primary(ordinal);
}

int driver::owner_of(CUcontext context) {
  for (int i = 0; i < device_count_; ++i) {
    const CUcontext known = primaries_[static_cast<std::size_t>(i)].load(std::memory_order_acquire);
    if (known == context) return i;
  }
  // The context may be a primary one that others have made, such as the CUDA runtime. Only an
  // active one can be current, and a query of another would make it.
  CUdevice device = 0;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS) return -1;
  unsigned flags = 0;
  int active = 0;
  if (cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) return -1;
  const int ordinal = ordinal_of(device);
  return primary(ordinal) == context ? ordinal : -1;
}

void driver::reset(int ordinal) {
  const CUdevice leaving = device(ordinal);
  primaries_[static_cast<std::size_t>(ordinal)].store(nullptr, std::memory_order_release);
  check(cuDevicePrimaryCtxReset(leaving));
}

void driver::wait_all() {
  for (int i = 0; i < device_count_; ++i) {
    const CUcontext used = primaries_[static_cast<std::size_t>(i)].load(std::memory_order_acquire);
    if (used == nullptr) continue;
    const pushed_context scope{used};
    wait_by_free();
  }
}

}  // namespace hipvmm::cuda_provider
