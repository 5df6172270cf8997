// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/vmm/access.hpp>
#include "mr/pool/backend/backend.hpp"
#include "region/retirement.hpp"

namespace hipvmm::mr::pool {

class addressed_backend : public memory_backend {
 public:
  using memory_backend::memory_backend;

  [[nodiscard]] virtual std::string explain() const = 0;
  /// Whether the size of the pool's device is a limit.
  [[nodiscard]] virtual bool is_of_device() const noexcept { return false; }

  /// Pre: `offset` is backed. Thread-safe.
  [[nodiscard]] virtual std::uintptr_t address_of(std::size_t offset) const noexcept = 0;
  /// At least traits.address_bytes for foreign addresses. Thread-safe.
  [[nodiscard]] virtual std::size_t offset_of(std::uintptr_t address) const noexcept = 0;
};

/// Chunks in one range of addresses, or slabs if virtual memory is missing.
class device_backend : public addressed_backend {
 public:
  using addressed_backend::addressed_backend;

  [[nodiscard]] bool is_of_device() const noexcept override { return true; }
  [[nodiscard]] std::uint64_t reclaimed_so_far() const override {
    return detail::reclaimed_so_far();
  }
  [[nodiscard]] std::size_t reclaims_left() const override { return retired_memory().waiting; }
  virtual void grant(device_ref device, access_right right) = 0;
  virtual void set_access(const access_list& rights) = 0;
  [[nodiscard]] virtual const access_map& rights() const = 0;
  /// Throws: unsupported on slabs.
  [[nodiscard]] virtual region& chunk_region() = 0;
  /// Pre: `offset` is backed. Throws: unsupported on chunks.
  [[nodiscard]] virtual const device_allocation& slab_at(std::size_t offset) const = 0;
};

}  // namespace hipvmm::mr::pool
