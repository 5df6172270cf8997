// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "vmm_model.hpp"

namespace hipvmm::test::model {

enum class kind : std::uint8_t {
  reserve,
  address_free,
  create,
  release,
  map,
  unmap,
  set_access,
  get_access,
  retain,
  properties,
  export_handle,
  import_handle,
  close_descriptor,
  allocate,
  free_allocation,
  enable_peer,
  disable_peer,
  copy,
  peer_copy,
  fill,
  fill_behind_change,  ///< the last
};
inline constexpr std::size_t kinds = static_cast<std::size_t>(kind::fill_behind_change) + 1;
using kind_counts = std::array<std::size_t, kinds>;

/// The source of an address. Operations name objects by slot, so that an operation still means
/// something when others are removed from its sequence.
enum class space : std::uint8_t { number, reservation, allocation, pinned, pageable };
struct place {
  space where = space::number;
  std::uint8_t slot = 0;
  std::uint64_t offset = 0;  ///< or the address itself
};

inline constexpr std::size_t reservation_slots = 6;
inline constexpr std::size_t handle_slots = 8;
inline constexpr std::size_t descriptor_slots = 4;
inline constexpr std::size_t allocation_slots = 3;
/// No slot: a null handle.
inline constexpr std::uint8_t no_slot = 255;

enum class passed : std::uint8_t { as_value, as_pointer, as_null, not_open, another_file };
enum class variant : std::uint8_t { at_once, on_stream, by_direction };
/// The change of the first mapping of a fill between its submission and its turn.
enum class change : std::uint8_t { nothing, unmapped, closed, read_only };

/// A call, with the arguments of every kind side by side. Trivially copyable, because a child
/// process leaves it in shared memory.
struct operation {
  kind what = kind::reserve;
  place at = {};
  place from = {};
  std::uint8_t slot = 0;    ///< of the handle, descriptor, or result
  std::uint8_t source = 0;  ///< of the descriptor or handle that is exported or imported
  bool has_result = true;
  bool has_argument = true;  ///< properties, location or list of entries
  std::uint64_t bytes = 0;   ///< or elements
  std::uint64_t offset = 0;  ///< or alignment
  std::uint64_t flags = 0;
  int type = 0;  ///< of the allocation, copy, handle; width of elements
  int location_type = hipMemLocationTypeDevice;
  int device = 0;
  int peer = 0;
  int handle_type = 0;
  std::uint32_t value = 0;
  passed how = passed::as_value;
  variant by = variant::at_once;
  change then = change::nothing;
  std::uint8_t entry_count = 0;
  std::array<access_entry, 3> entries = {};
};
static_assert(std::is_trivially_copyable_v<operation>);

[[nodiscard]] std::string text_of(const operation& each);

}  // namespace hipvmm::test::model
