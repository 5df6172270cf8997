// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

/// Sources that can serve a request, in the order in which the pool tries them.
enum class pool_source {
  own_stream,           ///< freed in the same stream before, or idle
  followed_stream,      ///< pool_reuse::follow_event_dependencies
  opportunistic,        ///< pool_reuse::allow_opportunistic
  internal_dependency,  ///< pool_reuse::allow_internal_dependencies
  moved_chunks,         ///< idle chunks, mapped at the requested place
  new_chunks,
  waited,  ///< memory freed in other streams, after the caller waited for it
};
inline constexpr std::size_t pool_source_count = static_cast<std::size_t>(pool_source::waited) + 1;

struct pool_usage {
  std::size_t reserved_current;  ///< physical memory held
  std::size_t reserved_high;     ///< highest value since the start or reset_peaks()
  /// Allocated by callers, with blocks that a thread is just taking out of its cache.
  std::size_t used_current;
  std::size_t used_high;  ///< highest sum of that and of the threads' caches
};

/// Statistics of a pool; sizes are in bytes.
struct pool_statistics : pool_usage {
  std::size_t address_bytes;
  std::size_t mapped_bytes;   ///< addresses with memory mapped
  std::size_t largest_now;    ///< largest request served by free memory without moving chunks
  std::size_t largest_moved;  ///< largest served after moves of idle chunks, without new memory
  /// Largest with new memory of the device too, within the pool's limit and addresses, the device's
  /// memory_budget and the descriptors of the process.
  std::size_t largest_possible;
  std::uint64_t chunks_created;
  std::uint64_t chunks_moved;
  std::uint64_t callbacks;  ///< calls of the out-of-memory callback
  /// Requests served, by pool_source. A request that a thread's cache serves is not counted; each
  /// refill of a cache is, by the sources of its memory.
  std::array<std::uint64_t, pool_source_count> served;
  struct stream_share {
    stream_ref stream;
    std::size_t free_bytes;
  };
  /// Free memory by the stream it was freed in; the first entry is idle memory.
  std::vector<stream_share> streams;
};

}  // namespace hipvmm::mr
