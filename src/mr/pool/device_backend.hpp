// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hipvmm/core/device.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/region.hpp>
#include "mr/pool/backend.hpp"

namespace hipvmm::mr::pool {

/// Memory behind addresses that callers can use.
class addressed_backend : public memory_backend {
 public:
  [[nodiscard]] virtual std::string explain() const = 0;
  /// Most that could be taken from below now, in bytes, as far as that can be told.
  [[nodiscard]] virtual std::size_t available_bytes() const = 0;

  /// Pre: backed. Thread-safe.
  [[nodiscard]] virtual std::uintptr_t address_of(std::size_t offset) const noexcept = 0;
  /// At least address_bytes() for what is none of its addresses. Thread-safe.
  [[nodiscard]] virtual std::size_t offset_of(std::uintptr_t address) const noexcept = 0;
};

/// A pool's memory on a device: chunks in one range of addresses or, where virtual memory is
/// missing, slabs.
class device_backend : public addressed_backend {
 public:
  /// Throws: out_of_memory when the addresses are not to be had; unsupported where `fallback` is
  /// refuse and the device needs it, or cannot share what is to be `shareable`.
  [[nodiscard]] static std::unique_ptr<device_backend> make(device_ref device,
                                                            std::size_t address_bytes,
                                                            handle_type shareable,
                                                            without_vmm fallback);

  /// As region's.
  virtual void grant(device_ref device, access_right right) = 0;
  [[nodiscard]] virtual access_right access(device_ref device) const = 0;
};

}  // namespace hipvmm::mr::pool
