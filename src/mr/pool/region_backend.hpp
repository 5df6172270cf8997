// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/region.hpp>
#include "mr/pool/device_backend.hpp"

namespace hipvmm::mr::pool {

/// A pool's memory: a region, and a cache of its own for chunks between two addresses.
class region_backend final : public device_backend {
 public:
  region_backend(device_ref device, std::size_t address_bytes, handle_type shareable);
  /// Everything goes back when all work that the devices with access have now is done.
  ~region_backend() override { region_.retire(); }

  [[nodiscard]] std::size_t address_bytes() const override { return address_bytes_; }
  [[nodiscard]] std::size_t granularity() const override { return region_.granularity(); }
  [[nodiscard]] bool has_equal_chunks() const override { return has_equal_chunks_; }
  [[nodiscard]] bool has_aliases() const override { return region_.can_move_chunks(); }
  void create(std::size_t offset, std::size_t bytes) override;
  void lift(std::size_t offset, std::size_t bytes) override;
  void release_detached() noexcept override { detached_.trim(); }
  void alias(std::size_t from, std::size_t to, std::size_t bytes) override;
  bool end_alias(std::size_t from, std::size_t bytes) noexcept override;

  void grant(device_ref device, access_right right) override { region_.grant(device, right); }
  [[nodiscard]] access_right access(device_ref device) const override {
    return region_.access(device);
  }
  [[nodiscard]] std::string explain() const override;
  [[nodiscard]] std::size_t available_bytes() const override {
    return region_.device().free_memory();
  }
  [[nodiscard]] std::uintptr_t base() const noexcept override {
    return reinterpret_cast<std::uintptr_t>(region_.base());
  }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept override {
    return base() + offset;
  }
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address) const noexcept override {
    return address - base();
  }

 private:
  chunk_cache detached_;
  region region_;
  std::size_t address_bytes_;
  // A region with holes may need that.
  bool has_equal_chunks_;
};

}  // namespace hipvmm::mr::pool
