// SPDX-License-Identifier: MIT
#pragma once

#include "container/container_test.hpp"

namespace hipvmm::test {

using sizes = std::vector<std::size_t>;

/// Slots of four blocks of one granule in two planes, and nothing prefetched.
inline slot_arena_options small_slots(std::size_t slots = 4,
                                      std::size_t budget = slot_arena_options::no_budget) {
  return slot_arena_options{.slots = slots,
                            .bytes_per_slot = 4 * granule(),
                            .planes = 2,
                            .block_bytes = granule(),
                            .budget_bytes = budget,
                            .prefetch_blocks = 0};
}

struct four_slots {
  hipvmm::stream stream{first_device};
  slot_arena arena{first_device, small_slots()};
};

/// Bytes of a block in both planes.
inline std::size_t row() { return 2 * granule(); }

/// Whether memory stays with the addresses that it was mapped in: trim() does not return it while
/// something is mapped there.
inline bool addresses_pin() { return capability_of(first_device).needs(quirk::re_reserve); }
/// Bytes held, but for those that trim() could not return.
inline std::size_t held_unpinned(const slot_arena_statistics& now) {
  return now.held_bytes - (addresses_pin() ? now.kept_bytes + now.spare_bytes : 0);
}

/// Writes bytes of `seed` to the last `bytes` bytes of the slot, in each plane.
inline void write_end(const slot_arena& arena, std::size_t slot, std::size_t bytes,
                      std::uint32_t seed, stream_ref stream) {
  for (std::size_t plane = 0; plane < arena.planes(); ++plane)
    write_bytes(stream, advance(arena.pointer(slot, plane), arena.length(slot) - bytes),
                pattern(bytes, seed + static_cast<std::uint32_t>(plane)));
}

/// Returns whether they are there.
inline bool has_end(const slot_arena& arena, std::size_t slot, std::size_t bytes,
                    std::uint32_t seed, stream_ref stream) {
  for (std::size_t plane = 0; plane < arena.planes(); ++plane) {
    const void* const from = advance(arena.pointer(slot, plane), arena.length(slot) - bytes);
    if (read_bytes(stream, from, bytes) != pattern(bytes, seed + static_cast<std::uint32_t>(plane)))
      return false;
  }
  return true;
}

}  // namespace hipvmm::test
