// SPDX-License-Identifier: MIT
#include "mr/pool/pool_sleep.hpp"

#include <stdexcept>
#include <tuple>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include "core/observers/race_checker_calls.hpp"

namespace hipvmm::mr {
namespace {

// A copy of so much more costs less than another copy.
constexpr std::size_t gap_to_copy = 64 * KiB;

}  // namespace

pool_sleep::pool_sleep(const std::optional<memory_tag>& tag, pool::block_allocator& blocks,
                       pool::device_backend& memory)
    : blocks_{blocks},
      memory_{memory},
      refusal_{tag ? tag->state()->refusal("vmm_pool_resource") : std::string{}},
      membership_{tag, *this} {}

void pool_sleep::prepare_to_sleep(const detail::sleep_plan& plan) {
  blocks_.begin_sleep(refusal_);
  try {
    blocks_.release_idle(plan.function(), plan.waits());
    chunks().prepare_to_sleep(plan);
  } catch (...) {
    blocks_.wake();
    throw;
  }
}

void pool_sleep::stay_awake() noexcept {
  chunks().stay_awake();
  blocks_.wake();
}

std::vector<detail::sleeping_range> pool_sleep::contents() {
  std::vector<detail::sleeping_range> result;
  // The order checker would take the copy of the bytes between for a use of freed memory.
  const std::size_t most_between = detail::is_order_checked() ? 0 : gap_to_copy;
  std::size_t backed_end = 0;  // of the memory beside the last block
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

void pool_sleep::finish_waking() noexcept {
  chunks().finish_waking();
  blocks_.wake();
}

}  // namespace hipvmm::mr
