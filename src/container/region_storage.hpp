// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <hipvmm/region/region.hpp>
#include "container/storage_memory.hpp"
#include "region/chunks/region_chunks.hpp"
#include "region/sleep/memory_tag.hpp"

namespace hipvmm::detail {

/// moves_data: data may move to other addresses if only that returns released memory.
/// stays_for_life: trim(0) does not reset base() to the first address.
enum class held_memory { stays, moves_data, stays_for_life };

/// Backing by chunks, which after erase_front() begin behind the region's base. Past the end of the
/// addresses they move to another reservation without those in front.
class region_storage final : public storage_memory {
 public:
  region_storage(region owned, held_memory held) noexcept : region_{std::move(owned)}, held_{held} {
    use_pinned_chunks(region_);
  }

  void require_whole() override { sleep_participant_of(region_).map_again(); }
  [[nodiscard]] std::unique_ptr<storage_memory> another(
      std::size_t max_bytes, const region_options& chosen) const override {
    return std::make_unique<region_storage>(region{region_.device(), max_bytes, chosen},
                                            held_memory::stays);
  }
  void commit(std::size_t offset, std::size_t bytes) override;
  void undo_commit(std::size_t bytes) override {
    region_.decommit(start_ + bytes, region_.max_bytes() - start_ - bytes);
  }
  bool extend(std::size_t max_bytes, std::size_t commit_bytes) override;
  std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail) override;
  void erase_front(std::size_t bytes, stream_ref stream) override;
  void erase_all(std::size_t, stream_ref stream) override {
    region_.trim(0, stream, tail_chunk::keep);
    start_ = erased_bytes_ = 0;
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
  void set_access(const access_list& rights) override { region_.set_access(rights); }
  [[nodiscard]] const access_map& rights() const override { return region_.rights(); }
  [[nodiscard]] region& chunk_region() override { return region_; }
  [[nodiscard]] bool is_address_stable() const noexcept override { return true; }
  [[nodiscard]] void* base() const noexcept override {
    return static_cast<char*>(region_.base()) + start_ + erased_bytes_;
  }
  [[nodiscard]] std::size_t erased_bytes() const noexcept override { return erased_bytes_; }
  [[nodiscard]] std::size_t granularity() const noexcept override { return region_.granularity(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept override {
    return region_.max_bytes() - start_;
  }
  [[nodiscard]] std::size_t committed_bytes() const noexcept override {
    return region_.committed_bytes();
  }
  [[nodiscard]] std::size_t chunk_count() const noexcept override { return region_.chunk_count(); }

 private:
  void leave_front(std::size_t max_bytes, std::size_t commit_bytes);

  region region_;
  held_memory held_;
  std::size_t start_ = 0;  // offset of the first chunk in the region
  std::size_t erased_bytes_ = 0;
};

}  // namespace hipvmm::detail
