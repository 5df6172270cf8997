// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace hipvmm::detail {

/// Chunk cache functions for other parts of the library.
struct kept_memory {
  /// How often memory kept by chunk_cache::shared() was released so far.
  [[nodiscard]] static std::uint64_t times_released() noexcept;
  /// Releases all that chunk_cache::shared() keeps and that may relieve `shortage`. Returns whether
  /// this thread or another released anything since times_released() returned `seen`: then the
  /// request that failed may succeed.
  [[nodiscard]] static bool release_for(const out_of_memory& shortage, std::uint64_t seen) noexcept;
  /// Releases what `cache` has kept for its retention at `now`. The cache's thread does so by the
  /// clock.
  static void release_expired(chunk_cache& cache,
                              std::chrono::steady_clock::time_point now) noexcept;
};

}  // namespace hipvmm::detail
