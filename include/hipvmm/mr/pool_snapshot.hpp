// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hipvmm::mr {

enum class block_use : std::uint8_t {
  allocated,  ///< by a caller
  cached,     ///< freed, kept by a thread for its next request in the same stream
  pending,    ///< free for its stream; work submitted before may still use it
  idle,       ///< free, and no work uses it
  leaving,    ///< the old address of a chunk that was moved, until it is unmapped
};

/// The memory of a pool at one moment, by address; sizes are in bytes.
struct pool_snapshot {
  struct block {
    std::uintptr_t address;
    std::size_t bytes;  ///< with the pool's rounding
    block_use use;
    std::uintptr_t stream;  ///< handle of the stream that allocated or freed it; 0: none, or gone
  };
  /// A range of addresses with memory, made of blocks without gaps.
  struct segment {
    std::uintptr_t address;
    std::size_t bytes;
    std::vector<block> blocks;
  };

  std::uint64_t pool;  ///< event_id() of the pool
  int device;
  std::int64_t time_ns;    ///< of std::chrono::steady_clock
  std::uintptr_t address;  ///< of the pool's reservation; 0 on slabs, of an upstream too
  std::size_t address_bytes;
  std::vector<segment> segments;

  [[nodiscard]] std::size_t bytes_of(block_use use) const noexcept {
    std::size_t sum = 0;
    for (const segment& one : segments)
      for (const block& each : one.blocks)
        if (each.use == use) sum += each.bytes;
    return sum;
  }
};

}  // namespace hipvmm::mr
