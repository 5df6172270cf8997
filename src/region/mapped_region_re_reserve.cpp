// SPDX-License-Identifier: MIT
// The part of region that changes its addresses and keeps what is mapped.
#include <memory>
#include <utility>

#include "core/check.hpp"
#include "region/device_work.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"

namespace hipvmm::detail {

void mapped_region::map_all(mapping_list& moved) const {
  moved.maps.reserve(backings.size());
  for (const auto& [offset, held] : backings)
    moved.maps.push_back(
        map_with_rights({*moved.range, offset}, offset, held.chunk, held.own_rights.get()));
}

void mapped_region::move_to(mapping_list& moved) noexcept {
  const moment visible = visible_if_mapped_now();
  auto next = moved.maps.begin();
  for (auto& [offset, held] : backings) {
    std::swap(held.map, *next++);
    held.visible = visible;
  }
  std::swap(addresses, moved.range);
  holds_memory = false;
}

void mapped_region::re_reserve() noexcept {
  const auto change_to = [this](address_reservation&& fresh) {
    auto range = std::make_shared<address_range>(std::move(fresh));
    mapping_list moved{range};
    map_all(moved);
    move_to(moved);
  };
  report_exceptions([&] {
    void* const base = addresses->base();
    const std::size_t bytes = addresses->bytes();
    finish_retired(*addresses, 0, bytes);
    // Not so in an error handler, which may be part of what would be waited for.
    if (addresses.use_count() > 1) return;
    if (!backings.empty() || frees_late_records()) wait_for_users(users);
    // Whole at other addresses first, so that the region is never without any.
    change_to(reserve(bytes));
    address_reservation same{bytes, 0, base};
    if (same.get() == base) change_to(std::move(same));
  });
  await_visible(0, max_bytes());
}

}  // namespace hipvmm::detail
