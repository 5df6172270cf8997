// SPDX-License-Identifier: MIT
// How operations go wrong, and which of them several threads may make.
#include <algorithm>

#include "operation_generator.hpp"

namespace hipvmm::test::model {

std::uint64_t operation_generator::absurd_number() {
  return one_of<std::uint64_t>({0, 1, 2, 3, 4095, 4096, 4097, std::uint64_t{1} << 31U,
                                std::uint64_t{1} << 47U, std::uint64_t{1} << 62U,
                                std::uint64_t{1} << 63U, ~std::uint64_t{0},
                                ~std::uint64_t{0} - 4095, ~std::uint64_t{0} / 2});
}

void operation_generator::spoil(operation& each, const lockstep& state) {
  const std::size_t granule = state.model().of().granularity;
  switch (below(14)) {
    case 0:
    case 1:
      each.bytes += one_of<std::uint64_t>(
          {1, granule, 512, ~std::uint64_t{0}, 0 - granule, 0 - std::uint64_t{512}});
      break;
    case 2:
      each.bytes = absurd_number();
      break;
    case 3:
    case 4:
      each.at.offset += one_of<std::uint64_t>(
          {1, granule, 512, each.bytes, ~std::uint64_t{0}, 0 - granule, granule / 2});
      break;
    case 5:
      each.at = {space::number, 0, absurd_number()};
      break;
    case 6:
      each.at = {one_of({space::allocation, space::pinned, space::pageable, space::reservation}),
                 static_cast<std::uint8_t>(below(allocation_slots)), 0};
      break;
    case 7:
      each.flags = one_of<std::uint64_t>({1, 2, std::uint64_t{1} << 40U});
      break;
    case 8:
      (one_in(2) ? each.has_result : each.has_argument) = false;
      break;
    case 9: {
      const bool is_export = each.what == kind::export_handle;
      const bool takes_handle = each.what == kind::release || each.what == kind::map ||
                                each.what == kind::properties || is_export;
      if (!takes_handle) break;
      (is_export ? each.source : each.slot) =
          one_in(2) ? no_slot : static_cast<std::uint8_t>(below(handle_slots));
      break;
    }
    case 10:
      // A stream belongs to some device; only those that name one by number can name none.
      if (each.what == kind::create || each.what == kind::get_access ||
          each.what == kind::peer_copy)
        each.device = one_of({-1, device_count, 64, -2147483647});
      each.peer = one_of({-1, device_count, 0, 1, 2, 3});
      each.handle_type = one_of<int>({0, 1, 2, 4, 7, -1});
      break;
    case 11:
      each.offset = one_in(2) ? absurd_number() : granule;
      each.location_type = one_of({0, 2, 3, -1});
      each.how = one_of({passed::as_null, passed::not_open, passed::another_file});
      break;
    case 12: {
      access_entry& entry = each.entries[below(each.entries.size())];
      entry = {one_of({0, 1, 1, 1, 2, -1}), one_of({-1, device_count, 0, 1, 2, 3}),
               one_of({0, 1, 3, 3, 2, 4, -1})};
      if (one_in(4)) each.entry_count = 0;
      break;
    }
    default:
      if (each.what == kind::copy || each.what == kind::create)
        each.type = one_of({0, 1, 2, 3, 4, 5, 77, -1});
      each.from = {one_of({space::allocation, space::pinned, space::reservation}),
                   static_cast<std::uint8_t>(below(allocation_slots)), one_in(2) ? 0 : granule};
      if (one_in(4)) each.from = {};
  }
}

bool operation_generator::is_within_reach(const operation& each, const lockstep& state) const {
  if (reach_ == reach::anything) return true;
  const vmm_model& model = state.model();
  const slot_values& slots = state.slots();
  const auto is_own = [&](const place& at, std::uint64_t bytes) {
    switch (at.where) {
      case space::number:
        return at.offset == 0;
      case space::reservation: {
        const auto found = model.reservations().find(slots.reservations[at.slot].start);
        return found != model.reservations().end() && at.offset < found->second.bytes &&
               bytes <= found->second.bytes - at.offset;
      }
      case space::allocation: {
        // A range that runs over the end of these is refused, whether or not an owner is behind it.
        const auto found = model.areas().find(slots.allocations[at.slot].start);
        return found != model.areas().end() && at.offset < found->second.bytes;
      }
      default:
        return at.offset < slots.pinned.bytes;
    }
  };
  const auto is_own_handle = [&](std::uint8_t slot) {
    return slot == no_slot || model.is_usable(slots.handles[slot]);
  };
  // A quarter of all there is belongs to each thread, so that none finds it used up.
  const std::size_t part = model.of().device_bytes / 4;
  switch (each.what) {
    case kind::reserve: {
      std::size_t taken = 0;
      for (const auto& [start, reserved] : model.reservations()) taken += reserved.bytes;
      return each.at.where == space::number && each.at.offset == 0 &&
             each.bytes <= model.of().address_space / 4 - taken;
    }
    case kind::create:
    case kind::allocate:
      return !exists(each.device) || (each.bytes <= part - model.used_bytes(each.device) &&
                                      model.used_bytes(each.device) <= part);
    case kind::enable_peer:
    case kind::disable_peer:
    case kind::fill_behind_change:
      return false;
    case kind::import_handle:
      return each.how == passed::as_null || slots.descriptors[each.source] >= 0;
    case kind::release:
    case kind::properties:
      return is_own_handle(each.slot);
    case kind::export_handle:
      return is_own_handle(each.source);
    case kind::map:
      if (!is_own_handle(each.slot)) return false;
      break;
    default:
      break;
  }
  const bool is_range = each.what != kind::get_access && each.what != kind::retain;
  const std::size_t width = each.what == kind::fill ? static_cast<std::size_t>(each.type) : 1;
  const std::uint64_t bytes =
      is_range ? std::min(each.bytes, ~std::uint64_t{0} / width) * width : 1;
  return is_own(each.at, bytes) && is_own(each.from, bytes);
}

}  // namespace hipvmm::test::model
