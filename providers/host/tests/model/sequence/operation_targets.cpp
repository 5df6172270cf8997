// SPDX-License-Identifier: MIT
// Targets that operations can name.
#include <algorithm>
#include <array>

#include "operation_generator.hpp"

namespace hipvmm::test::model {

operation_generator::spot operation_generator::some_mapping(const lockstep& state) {
  const vmm_model& model = state.model();
  const slot_values& slots = state.slots();
  const auto& mappings = model.mappings();
  for (int attempt = 0; !mappings.empty() && attempt < 4; ++attempt) {
    const auto chosen =
        std::next(mappings.begin(), static_cast<std::ptrdiff_t>(below(mappings.size())));
    const auto& [start, found] = *chosen;
    for (std::uint8_t slot = 0; slot < reservation_slots; ++slot) {
      const slot_values::range& in = slots.reservations[slot];
      if (start < in.start || start - in.start >= in.bytes) continue;
      const std::size_t inside = one_in(2) ? 0 : below(found.bytes);
      std::array<int, device_count> users{};
      std::size_t count = 0;
      for (int device = 0; device < device_count; ++device)
        if (model.right_of(found, device) != hipMemAccessFlagsProtNone) users[count++] = device;
      const int user =
          count == 0 || one_in(8) ? static_cast<int>(below(device_count)) : users[below(count)];
      std::size_t bytes = found.bytes - inside;
      // On into the neighbours, if there are any.
      for (auto next = std::next(chosen); one_in(2) && next != mappings.end(); ++next) {
        if (next->first != start + inside + bytes) break;
        bytes += next->second.bytes;
      }
      return {{space::reservation, slot, start - in.start + inside}, bytes, user};
    }
  }
  return {{space::reservation, some_reservation(state), 0}, model.of().granularity, 0};
}

operation_generator::spot operation_generator::some_memory(const lockstep& state) {
  const slot_values& slots = state.slots();
  const std::size_t which = below(12);
  const int device = static_cast<int>(below(device_count));
  if (which < 2) {
    const slot_values::range& range = which == 0 ? slots.pinned : slots.pageable;
    const std::size_t inside = below(range.bytes / 2);
    return {
        {which == 0 ? space::pinned : space::pageable, 0, inside}, range.bytes - inside, device};
  }
  const auto slot = static_cast<std::uint8_t>(below(allocation_slots));
  const auto found = state.model().areas().find(slots.allocations[slot].start);
  if (which < 4 && found != state.model().areas().end()) {
    const std::size_t inside = one_in(2) ? 0 : below(found->second.bytes);
    return {{space::allocation, slot, inside},
            found->second.bytes - inside,
            one_in(4) ? device : found->second.device};
  }
  return some_mapping(state);
}

std::size_t operation_generator::some_bytes(std::size_t most) {
  constexpr std::size_t large = std::size_t{16} << 10U;
  const std::size_t limit = one_in(3) ? std::min(most, large) : std::min<std::size_t>(most, 300);
  return one_in(8) ? std::min(most, 2 * large) : 1 + below(std::max<std::size_t>(limit, 1));
}

std::uint8_t operation_generator::some_reservation(const lockstep& state) {
  auto slot = static_cast<std::uint8_t>(below(reservation_slots));
  for (std::size_t i = 0; i < reservation_slots && !one_in(16); ++i) {
    if (state.model().reservations().contains(state.slots().reservations[slot].start)) break;
    slot = static_cast<std::uint8_t>((slot + 1U) % reservation_slots);
  }
  return slot;
}

std::uint8_t operation_generator::some_handle(const lockstep& state) {
  auto slot = static_cast<std::uint8_t>(below(handle_slots));
  for (std::size_t i = 0; i < handle_slots && !one_in(16); ++i) {
    if (state.model().is_usable(state.slots().handles[slot])) break;
    slot = static_cast<std::uint8_t>((slot + 1U) % handle_slots);
  }
  return slot;
}

/// The host, or one of its nodes if the release has any.
int operation_generator::some_host_location(const lockstep& state) {
  return state.model().rules().host_nodes > 0 && one_in(2) ? host_node_location : host_location;
}

}  // namespace hipvmm::test::model
