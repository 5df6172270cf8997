// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "mr/pool/backend/device_backend.hpp"

namespace hipvmm::mr::pool {

/// A pool's memory in a region, with its own cache of set-aside chunks.
class region_backend final : public device_backend {
 public:
  region_backend(device_ref device, std::size_t address_bytes, const region_options& chunks);
  /// Releases everything after the present work of the devices with access.
  ~region_backend() override;

  void create(std::size_t offset, std::size_t bytes, std::size_t chunk) override;
  [[nodiscard]] bool reclaim(const out_of_memory& shortage, std::uint64_t seen) override;
  void set_aside(std::size_t offset, std::size_t bytes) override;
  void release_set_aside() noexcept override;
  [[nodiscard]] std::size_t pinned_bytes() const noexcept override;
  [[nodiscard]] std::size_t set_aside_bytes(std::size_t chunk) const override;
  [[nodiscard]] std::unique_ptr<pending_release> detach(std::size_t offset,
                                                        std::size_t bytes) override;
  [[nodiscard]] left_mapped detach_refused(std::size_t offset, std::size_t bytes) override;
  void alias(const std::vector<std::size_t>& from, std::size_t to) override;
  [[nodiscard]] std::unique_ptr<pending_release> detach_old_mapping(std::size_t from) override;
  [[nodiscard]] std::unique_ptr<pending_release> replace_addresses() override;

  void grant(device_ref device, access_right right) override { addresses_.grant(device, right); }
  void set_access(const access_list& rights) override { addresses_.set_access(rights); }
  [[nodiscard]] const access_map& rights() const override { return addresses_.rights(); }
  [[nodiscard]] region& chunk_region() override { return addresses_; }
  [[nodiscard]] const device_allocation& slab_at(std::size_t offset) const override;
  [[nodiscard]] std::string explain() const override;
  [[nodiscard]] new_memory available() const override;
  [[nodiscard]] std::uintptr_t base() const noexcept override {
    return reinterpret_cast<std::uintptr_t>(addresses_.base());
  }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept override {
    return base() + offset;
  }
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address) const noexcept override {
    return address - base();
  }

 private:
  struct detached_run;
  struct detached_mapping;
  template <typename Detach>
  [[nodiscard]] std::unique_ptr<pending_release> detach_by(Detach detach);

  device_ref device_;
  region_options chunks_;
  std::atomic<std::size_t> missing_{0};  // in the last create() that the device refused
  // Also takes chunks of other objects in reclaim(), for the next create(). If addresses pin
  // memory, it keeps only pinned chunks.
  chunk_cache set_aside_;
  region addresses_;
  std::shared_ptr<detached_run> run_;  // of the thread that detached last
};

}  // namespace hipvmm::mr::pool
