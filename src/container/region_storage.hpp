// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

#include <hipvmm/region/region.hpp>
#include "container/storage_memory.hpp"

namespace hipvmm::detail {

/// Backing of a growable_storage by chunks of virtual memory.
class region_storage final : public storage_memory {
 public:
  explicit region_storage(region owned) noexcept : region_{std::move(owned)} {}

  void commit(std::size_t offset, std::size_t bytes) override { region_.commit(offset, bytes); }
  bool extend(std::size_t max_bytes, std::size_t commit_bytes) override {
    return region_.extend(max_bytes, commit_bytes);
  }
  std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail) override {
    return region_.trim(bytes, stream, tail);
  }
  void retire() noexcept override { region_.retire(); }
  void prepare(std::size_t bytes, prefetch_level how) override { region_.prepare(bytes, how); }
  std::size_t cancel_or_wait() noexcept override { return region_.cancel_or_wait(); }
  [[nodiscard]] std::size_t prepared_bytes() const noexcept override {
    return region_.prepared_bytes();
  }
  [[nodiscard]] std::size_t failed_preparations() const noexcept override {
    return region_.failed_preparations();
  }
  void grant(device_ref device, access_right right) override { region_.grant(device, right); }
  [[nodiscard]] const access_map& rights() const override { return region_.rights(); }
  [[nodiscard]] bool is_address_stable() const noexcept override { return true; }
  [[nodiscard]] void* base() const noexcept override { return region_.base(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept override { return region_.max_bytes(); }
  [[nodiscard]] std::size_t committed_bytes() const noexcept override {
    return region_.committed_bytes();
  }
  [[nodiscard]] std::size_t chunk_count() const noexcept override { return region_.chunk_count(); }

 private:
  region region_;
};

}  // namespace hipvmm::detail
