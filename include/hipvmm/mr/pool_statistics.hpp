// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/core/stream.hpp>

namespace hipvmm::mr {

/// Where requests were served, in the order in which the places are tried.
enum class pool_source {
  own_stream,           ///< given back in the same stream before, or idle
  followed_stream,      ///< pool_reuse::follow_event_dependencies
  opportunistic,        ///< pool_reuse::allow_opportunistic
  internal_dependency,  ///< pool_reuse::allow_internal_dependencies
  moved_chunks,         ///< idle chunks, mapped where they were needed
  new_chunks,           ///< new memory of the device
  waited,               ///< the caller waited for what streams had given back
};
inline constexpr std::size_t pool_source_count = static_cast<std::size_t>(pool_source::waited) + 1;

/// A pool in numbers; sizes in bytes.
struct pool_statistics {
  std::size_t reserved_current;  ///< physical memory held
  std::size_t reserved_high;     ///< most of it since the start or reset_peaks()
  std::size_t used_current;      ///< handed out
  std::size_t used_high;         ///< most of it and of what threads kept at hand, together
  std::size_t address_bytes;     ///< addresses reserved
  std::size_t mapped_bytes;      ///< addresses with memory behind them
  std::size_t largest_now;       ///< largest request that free memory serves as it lies
  std::size_t largest_moved;     ///< largest after idle chunks were moved together
  std::size_t largest_possible;  ///< largest with what may still be taken from the device as well
  std::uint64_t chunks_created;
  std::uint64_t chunks_moved;
  std::uint64_t callbacks;  ///< calls of the out-of-memory callback
  /// Requests served, by pool_source; those that a thread's own cache served count as its refills.
  std::array<std::uint64_t, pool_source_count> served;
  struct stream_share {
    stream_ref stream;
    std::size_t free_bytes;
  };
  /// What was given back in each stream and not taken since; the first entry: what is idle.
  std::vector<stream_share> streams;
};

}  // namespace hipvmm::mr
