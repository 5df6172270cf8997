// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "core/observers/race_checker_calls.hpp"
#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/backend/device_backend.hpp"
#include "region/sleep/memory_tag.hpp"

namespace hipvmm::mr {

/// Lets a pool of chunks sleep and wake: its blocks by the allocator, its chunks by their region.
class pool_sleep final : detail::sleep_participant {
 public:
  /// Both outlive it. Without a tag the pool never sleeps.
  pool_sleep(const std::optional<memory_tag>& tag, pool::block_allocator& blocks,
             pool::device_backend& memory)
      : blocks_{blocks},
        memory_{memory},
        refusal_{tag ? tag->state()->refusal("vmm_pool_resource") : std::string{}},
        membership_{tag, *this} {}

  /// Throws: std::logic_error while it sleeps, falls asleep or wakes, or may be evicted.
  void require_awake(const char* function) const {
    if (blocks_.is_asleep()) throw std::logic_error{membership_.refusal(function)};
    membership_.require_awake(function);
  }
  /// The same for requests, without is_asleep(): the allocator refuses them then.
  void require_use() const { membership_.require_awake("vmm_pool_resource"); }
  /// Waits for a suspend() or resume() under way, and leaves the tag.
  void end() noexcept { membership_.end(); }

 private:
  template <typename Work>
  auto with_chunks(Work work) const {
    return blocks_.with_backend([&] { return work(participant()); });
  }

  [[nodiscard]] std::pair<const void*, std::size_t> addresses_of() const noexcept override {
    // A trim in another thread may change the region of a pool that is awake.
    return with_chunks([](const detail::sleep_participant& held) { return held.addresses_of(); });
  }
  [[nodiscard]] device_ref device() const noexcept override {
    return with_chunks([](const detail::sleep_participant& held) { return held.device(); });
  }
  void begin_asleep() noexcept override { blocks_.begin_sleep(refusal_); }
  [[nodiscard]] std::size_t held_bytes() override {
    return with_chunks([](detail::sleep_participant& held) { return held.held_bytes(); });
  }
  void prepare_to_sleep(const detail::sleep_plan& plan) override {
    begin_asleep();
    blocks_.release_idle(plan.function(), plan.waits());
    participant().prepare_to_sleep(plan);
  }
  void be_awake() noexcept override { blocks_.wake(); }
  void wait_for_work() override { participant().wait_for_work(); }
  void each_asleep(const std::function<void(memory_location, std::size_t)>& found) const override {
    participant().each_asleep(found);
  }
  [[nodiscard]] std::vector<detail::sleeping_range> contents() override {
    // A copy of so many unused bytes costs less than another copy call.
    constexpr std::size_t gap_to_copy = 64 * KiB;
    std::vector<detail::sleeping_range> result;
    // The order checker would report a copy of the bytes between as a use of freed memory.
    const std::size_t most_between = detail::is_order_checked() ? 0 : gap_to_copy;
    std::size_t backed_end = 0;  // of the last listed block
    std::size_t copied_end = 0;
    const auto [device, base, blocks] = blocks_.with_backend([this] {
      return std::tuple{memory_.chunk_region().device(), memory_.base(), blocks_.list_blocks()};
    });
    for (const pool::listed_block& each : blocks) {
      const bool is_beside = each.offset == backed_end;
      backed_end = each.offset + each.bytes;
      if (!is_beside) copied_end = 0;
      if (each.use != block_use::allocated) continue;
      if (copied_end != 0 && each.offset - copied_end <= most_between)
        result.back().bytes += backed_end - copied_end;
      else
        result.push_back({reinterpret_cast<void*>(base + each.offset), each.bytes, device});
      copied_end = backed_end;
    }
    return result;
  }
  [[nodiscard]] detail::chunks_that_stay_mapped staying(const detail::sleep_plan& plan) override {
    return with_chunks([&](detail::sleep_participant& held) { return held.staying(plan); });
  }
  void unmap_to_sleep(const detail::wait_until_saved& saved) override {
    participant().unmap_to_sleep(saved);
  }
  void map_again() override { participant().map_again(); }
  void finish_suspend() noexcept override { participant().finish_suspend(); }
  void reacquire_addresses() override { participant().reacquire_addresses(); }
  void map_for_resume(const detail::mapped_again& each, detail::memory_to_make& left) override {
    participant().map_for_resume(each, left);
  }
  void stay_asleep(bool may_be_in_use) noexcept override {
    participant().stay_asleep(may_be_in_use);
  }
  void apply_rights() override { participant().apply_rights(); }
  void finish_waking() noexcept override { participant().finish_waking(); }

  /// Not kept, because a trim may replace the region.
  [[nodiscard]] detail::sleep_participant& participant() const {
    return detail::sleep_participant_of(memory_.chunk_region());
  }

  pool::block_allocator& blocks_;
  pool::device_backend& memory_;
  const std::string refusal_;
  detail::tag_membership membership_;  // last: suspend() of another thread may use all of it
};

}  // namespace hipvmm::mr
