// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/capability/capability.hpp>
#include "support/test.hpp"

namespace hipvmm::test {

/// Memory of another library: chunks side by side that HIP's own calls made and mapped.
class foreign_memory {
 public:
  /// One chunk of each of the sizes, in granules, which `device` may read and write.
  explicit foreign_memory(std::vector<std::size_t> granules, device_ref device = first_device,
                          hipMemAllocationHandleType exported = hipMemHandleTypeNone)
      : sizes_{std::move(granules)} {
    for (std::size_t& each : sizes_) bytes_ += each *= granule();
    // A granule more, which stays without memory.
    REQUIRE(hipMemAddressReserve(&base_, bytes_ + granule(), 0, nullptr, 0) == hipSuccess);
    hipMemAllocationProp wanted{};
    wanted.type = hipMemAllocationTypePinned;
    wanted.location = {hipMemLocationTypeDevice, device.ordinal()};
    wanted.requestedHandleType = exported;
    std::size_t offset = 0;
    const scoped_device scope{device};
    for (const std::size_t size : sizes_) {
      hipMemGenericAllocationHandle_t handle = nullptr;
      REQUIRE(hipMemCreate(&handle, size, &wanted, 0) == hipSuccess);
      handles_.push_back(handle);
      REQUIRE(hipMemMap(at(offset), size, 0, handle, 0) == hipSuccess);
      offset += size;
    }
    hipMemAccessDesc open{};
    open.location = wanted.location;
    open.flags = hipMemAccessFlagsProtReadWrite;
    REQUIRE(hipMemSetAccess(base_, bytes_, &open, 1) == hipSuccess);
  }
  ~foreign_memory() { end(); }
  foreign_memory& operator=(foreign_memory&&) = delete;

  /// Unmaps and releases all.
  void end() {
    if (base_ == nullptr) return;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      CHECK(hipMemUnmap(at(offset), sizes_[i]) == hipSuccess);
      CHECK(hipMemRelease(handles_[i]) == hipSuccess);
      offset += sizes_[i];
    }
    CHECK(hipMemAddressFree(base_, bytes_ + granule()) == hipSuccess);
    base_ = nullptr;
  }

  [[nodiscard]] void* base() const { return base_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] void* at(std::size_t offset) const { return static_cast<char*>(base_) + offset; }

 private:
  std::vector<std::size_t> sizes_;
  std::vector<hipMemGenericAllocationHandle_t> handles_;
  std::size_t bytes_ = 0;
  void* base_ = nullptr;
};

/// Ends the case, saying why, if no chunk can be retained.
#define HIPVMM_REQUIRE_RETAINING()                                            \
  do {                                                                        \
    const ::hipvmm::capability known = ::hipvmm::capability_of(first_device); \
    if (!known.has(::hipvmm::trait::retains_chunks)) {                        \
      MESSAGE("skipped: ", known.reason(::hipvmm::trait::retains_chunks));    \
      return;                                                                 \
    }                                                                         \
  } while (false)

}  // namespace hipvmm::test
