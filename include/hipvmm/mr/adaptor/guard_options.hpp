// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/bytes.hpp>

namespace hipvmm::mr {

struct guard_patterns {
  static constexpr unsigned char canary = 0xfd;  ///< before and behind blocks
  static constexpr unsigned char fresh = 0xcd;   ///< new blocks
  static constexpr unsigned char freed = 0xdd;   ///< blocks in quarantine
};

enum class guard_check {
  later,    ///< without a wait, at a later call after the stream has passed the deallocation
  at_once,  ///< in deallocate(), which waits for the stream
};

enum class guard_damage {
  reports,
  throws,  ///< from the next allocate(), allocate_sync() or flush(), as std::logic_error
};

struct guard_options {
  /// Bytes before and behind each block that must not change; at least 1.
  std::size_t canary_bytes = 256;
  /// Most bytes of freed blocks, with canaries and alignment, that are kept to find writes to them;
  /// 0: none. A larger block is not kept.
  std::size_t quarantine_bytes = 64 * MiB;
  guard_check check = guard_check::later;
  guard_damage on_damage = guard_damage::reports;
  bool capture_stacks = true;  ///< of allocations and deallocations, some microseconds each
};

}  // namespace hipvmm::mr
