// SPDX-License-Identifier: MIT
// The part of region that changes its addresses and keeps what is mapped.
#include <memory>
#include <utility>

#include "core/check.hpp"
#include "vmm/device_work.hpp"
#include "vmm/region_state.hpp"
#include "vmm/retirement.hpp"

namespace hipvmm {

region::mapped::mapping_list region::mapped::map_all_in(const address_range& range) const {
  mapping_list result;
  result.reserve(backings.size());
  for (const auto& [offset, held] : backings)
    result.push_back(map_with_rights({range, offset}, offset, held.chunk));
  return result;
}

void region::mapped::move_to(std::shared_ptr<address_range>& range, mapping_list& moved) noexcept {
  const detail::moment visible = visible_if_mapped_now();
  auto next = moved.begin();
  for (auto& [offset, held] : backings) {
    std::swap(held.map, *next++);
    held.visible = visible;
  }
  std::swap(addresses, range);
  holds_memory = false;
}

void region::mapped::renew_addresses() noexcept {
  const auto change_to = [this](address_reservation&& fresh) {
    auto range = std::make_shared<address_range>(std::move(fresh));
    mapping_list moved = map_all_in(*range);
    move_to(range, moved);
  };
  detail::report_exceptions([&] {
    void* const base = addresses->base();
    const std::size_t bytes = addresses->bytes();
    detail::finish_retired(*addresses, 0, bytes);
    // Not so in an error handler, which may be part of what would be waited for.
    if (addresses.use_count() > 1) return;
    if (!backings.empty() || frees_late_records()) detail::wait_for_users(rights);
    // Whole at other addresses first, so that the region is never without any.
    change_to(address_reservation{bytes});
    address_reservation same{bytes, 0, base};
    if (same.get() == base) change_to(std::move(same));
  });
  await_visible(0, max_bytes());
}

}  // namespace hipvmm
