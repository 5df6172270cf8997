// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/core/stream.hpp>
#include "mr/pool/allocator_state.hpp"

namespace hipvmm::mr::pool {

/// How a pool's memory is used, in bytes.
struct usage {
  std::size_t address_bytes = 0;   ///< reserved
  std::size_t physical_bytes = 0;  ///< held from the device
  std::size_t mapped_bytes = 0;    ///< the same and old addresses of moved chunks
  std::size_t used_bytes = 0;      ///< allocated by callers
  std::size_t largest_run = 0;     ///< longest run of free memory; that of caches is free too
  std::size_t largest_moved = 0;   ///< the same where all idle chunks move to addresses behind it
  /// Where new memory joins: free memory before unmapped addresses, and what moves to these.
  std::size_t largest_before_new = 0;
  std::size_t blocks = 0;
  std::size_t states = 0;
  struct stream_share {
    stream_ref stream;
    std::size_t free_bytes;
  };
  std::vector<stream_share> streams;  ///< the first: what is idle
};

/// Takes the state lock for a pass over all blocks. Throws: std::bad_alloc.
[[nodiscard]] usage usage_snapshot(allocator_state& all);

}  // namespace hipvmm::mr::pool
