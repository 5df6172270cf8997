// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/backend/device_backend.hpp"
#include "region/sleep/memory_tag.hpp"

namespace hipvmm::mr {

/// Lets a pool of chunks sleep and wake: its blocks by the allocator, its chunks by their region.
class pool_sleep final : detail::sleep_participant {
 public:
  /// Both outlive it. Without a tag the pool never sleeps.
  pool_sleep(const std::optional<memory_tag>& tag, pool::block_allocator& blocks,
             pool::device_backend& memory);

  /// Throws: std::logic_error while the pool sleeps, suspend() or resume() is at work on it, or the
  /// memory may be evicted.
  void require_awake(const char* function) const {
    if (blocks_.is_asleep()) throw std::logic_error{membership_.refusal(function)};
    membership_.require_awake(function);
  }
  /// The same for requests, for which the allocator knows the turns of suspend().
  void require_use() const { membership_.require_awake("vmm_pool_resource"); }
  /// Waits for a suspend() or resume() under way, and leaves the tag.
  void end() noexcept { membership_.end(); }

 private:
  /// Runs `work` on the region while no other thread uses the backend.
  template <typename Work>
  auto with_chunks(Work work) const {
    return blocks_.with_backend([&] { return work(chunks()); });
  }

  [[nodiscard]] std::pair<const void*, std::size_t> addresses_of() const noexcept override {
    // The pool may be awake, and a trim of another thread give it another region.
    return with_chunks([](const detail::sleep_participant& held) { return held.addresses_of(); });
  }
  [[nodiscard]] device_ref device() const noexcept override {
    return with_chunks([](const detail::sleep_participant& held) { return held.device(); });
  }
  void begin_asleep() noexcept override { blocks_.begin_sleep(refusal_); }
  [[nodiscard]] std::size_t held_bytes() override {
    return with_chunks([](detail::sleep_participant& held) { return held.held_bytes(); });
  }
  void prepare_to_sleep(const detail::sleep_plan& plan) override;
  void stay_awake() noexcept override;
  void wait_for_work() override { chunks().wait_for_work(); }
  void each_asleep(const std::function<void(memory_location, std::size_t)>& found) const override {
    chunks().each_asleep(found);
  }
  [[nodiscard]] std::vector<detail::sleeping_range> contents() override;
  [[nodiscard]] detail::chunks_that_stay_mapped staying(const detail::sleep_plan& plan) override {
    return with_chunks([&](detail::sleep_participant& held) { return held.staying(plan); });
  }
  void unmap_to_sleep(const detail::wait_until_saved& saved) override {
    chunks().unmap_to_sleep(saved);
  }
  void map_again() override { chunks().map_again(); }
  void finish_suspend() noexcept override { chunks().finish_suspend(); }
  void reacquire_addresses() override { chunks().reacquire_addresses(); }
  void map_for_resume(const detail::mapped_again& each, detail::memory_to_make& left) override {
    chunks().map_for_resume(each, left);
  }
  void stay_asleep(bool may_be_in_use) noexcept override { chunks().stay_asleep(may_be_in_use); }
  void apply_rights() override { chunks().apply_rights(); }
  void finish_waking() noexcept override;

  /// Another region after a release of all memory with its addresses.
  [[nodiscard]] detail::sleep_participant& chunks() const {
    return detail::sleep_participant_of(memory_.chunk_region());
  }

  pool::block_allocator& blocks_;
  pool::device_backend& memory_;
  const std::string refusal_;
  detail::tag_membership membership_;  // last: suspend() of another thread may use all of it
};

}  // namespace hipvmm::mr
