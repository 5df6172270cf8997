// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/vmm/access.hpp>
#include "region/backing.hpp"
#include "region/sleep/memory_tag.hpp"

namespace hipvmm::detail {

class region_state;

class region_sleep final : public sleep_participant {
 public:
  explicit region_sleep(region_state& of) noexcept : region_{of} {}

  [[nodiscard]] std::pair<const void*, std::size_t> addresses_of() const noexcept override;
  [[nodiscard]] device_ref device() const noexcept override;
  [[nodiscard]] std::size_t held_bytes() override;
  void prepare_to_sleep(const sleep_plan& plan) override;
  void wait_for_work() override;
  void each_asleep(const std::function<void(memory_location, std::size_t)>& found) const override;
  [[nodiscard]] std::vector<sleeping_range> contents() override;
  [[nodiscard]] chunks_that_stay_mapped staying(const sleep_plan& plan) override;
  void unmap_to_sleep(const wait_until_saved& saved) override;
  void map_again() override;
  void finish_suspend() noexcept override;
  void reacquire_addresses() override;
  void map_for_resume(const mapped_again& each, memory_to_make& left) override;
  void stay_asleep(bool may_be_in_use) noexcept override;
  void apply_rights() override;
  void finish_waking() noexcept override;

  /// Backings of a resume() under way or failed, which are not yet part of the region.
  [[nodiscard]] backing_map& resumed_backings() noexcept { return resumed_; }

 private:
  using sizes_by_chunk = std::map<ihipMemGenericAllocationHandle*, std::size_t>;

  struct sleeping_chunk {
    std::size_t bytes;
    memory_location where;
    device_ref device;
    chunk_memory memory;
    std::shared_ptr<const access_map> own_rights;
    std::size_t first;        // offset of the first mapping of its memory
    bool opens_late = false;  // has the region's rights until the contents are there, then its own
  };

  /// `owners`: how many mappings of the region show each chunk.
  void require_can_sleep(std::size_t offset, const backing& held,
                         const sizes_by_chunk& owners) const;
  /// Throws: std::invalid_argument if a chunk is at two addresses, or its device may not read it.
  void require_readable() const;
  /// Throws: std::invalid_argument unless all ranges of the plan in these addresses are backed.
  void require_backed(const sleep_plan& plan) const;
  [[nodiscard]] bool can_copy(const backing& held) const;
  /// The offset of the mapping by which each chunk's contents are copied.
  [[nodiscard]] sizes_by_chunk copied_by() const;
  /// Sets opens_late if a chunk's own rights give its device no read_write. Throws:
  /// std::invalid_argument if the region's rights give it none either, or if it may not read
  /// contents to be copied.
  void choose_contents(const sleep_plan& plan);
  /// Throws: unsupported if HIP would refuse rights when resume() maps the chunks by offset.
  void require_mappable_again() const;
  /// Frees and reserves the addresses if only that returns the memory.
  void reclaim_pinned() noexcept;

  region_state& region_;
  // By offset, from prepare_to_sleep() on. Backings that are not listed stay mapped.
  std::map<std::size_t, sleeping_chunk> chunks_;
  bool sleeps_with_contents_ = false;
  backing_map resumed_;
};

}  // namespace hipvmm::detail
