// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "mr/pool/backend/device_backend.hpp"
#include "mr/pool/backend/slab_table.hpp"
#include "region/malloc_rights.hpp"

namespace hipvmm::mr::pool {

/// A pool's memory without virtual memory: each chunk is a slab, an allocation of hipMalloc. Slabs
/// can be at any address, so a table translates offsets to addresses; both have the same remainder
/// by the granularity.
class slab_backend final : public device_backend {
 public:
  slab_backend(device_ref device, std::size_t address_bytes, const region_options& chunks);
  /// Releases everything when all work that the devices with access have now is done.
  ~slab_backend() override;

  void create(std::size_t offset, std::size_t bytes, std::size_t chunk) override;
  [[nodiscard]] bool reclaim(const out_of_memory& shortage, std::uint64_t seen) override;
  /// Detaches a slab; a thread of the library releases it to the device, because hipFree waits.
  [[nodiscard]] std::unique_ptr<pending_release> detach(std::size_t offset,
                                                        std::size_t bytes) override;

  void grant(device_ref device, access_right right) override { rights_.grant(device, right); }
  void set_access(const access_list& rights) override { rights_.set_access(rights); }
  [[nodiscard]] const access_map& rights() const override { return rights_.all(); }
  [[nodiscard]] region& chunk_region() override;
  [[nodiscard]] const device_allocation& slab_at(std::size_t offset) const override {
    return slabs_.owner_of(offset);
  }
  [[nodiscard]] std::string explain() const override;
  [[nodiscard]] new_memory available() const override {
    const std::size_t free = device_.free_memory();
    return {is_aligned_ ? free : free - std::min(free, traits.granularity)};
  }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept override {
    return slabs_.address_of(offset);
  }
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address) const noexcept override {
    return slabs_.offset_of(address, traits.address_bytes);
  }

 private:
  /// Allocates memory that contains `bytes` bytes starting at a multiple of the granularity.
  [[nodiscard]] device_allocation allocate(std::size_t bytes);

  device_ref device_;
  std::string why_;  // no chunks
  detail::malloc_rights rights_;
  // Until hipMalloc returns an address that is no multiple of the granularity; after that each slab
  // is a granule larger.
  std::atomic<bool> is_aligned_ = true;
  slab_table<device_allocation> slabs_;
};

}  // namespace hipvmm::mr::pool
