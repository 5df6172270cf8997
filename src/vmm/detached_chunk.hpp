// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/vmm/region.hpp>
#include "vmm/address_range.hpp"
#include "vmm/region_state.hpp"

namespace hipvmm::detail {

/// A chunk that has left its region, or a mapping that a chunk left behind there, which is still
/// mapped. To the region its addresses are free; they must not be backed before release().
class detached_chunk {
 public:
  detached_chunk(std::shared_ptr<address_range> addresses, backing what)
      : addresses_{std::move(addresses)}, what_{std::move(what)} {}

  /// Unmaps it and releases the chunk. Thread-safe beside all use of the region.
  /// Throws: hip_error; then it is still mapped.
  void release() {
    what_.map.unmap();
    what_ = {};
    addresses_.reset();
  }

 private:
  std::shared_ptr<address_range> addresses_;  // outlives the mapping
  backing what_;
};

/// Takes the chunk that begins at `offset` out of a region of mapped chunks. Pre: nothing in flight
/// uses it. Throws: std::invalid_argument unless a chunk begins there; std::bad_alloc.
[[nodiscard]] detached_chunk detach_chunk(region& from, std::size_t offset);
/// The same for what region::move_chunk() left at `offset`, instead of region::end_move().
[[nodiscard]] detached_chunk detach_left_behind(region& from, std::size_t offset);

}  // namespace hipvmm::detail
