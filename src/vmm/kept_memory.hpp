// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace hipvmm::detail {

/// What other parts of the library ask of chunk caches.
struct kept_memory {
  /// How often anything that chunk_cache::shared() kept was released so far.
  [[nodiscard]] static std::uint64_t times_released() noexcept;
  /// Releases all that chunk_cache::shared() keeps and that may relieve `shortage`. Returns whether
  /// anything was released since times_released() returned `seen`, by this thread or another: then
  /// the request that failed may succeed.
  [[nodiscard]] static bool release_for(const out_of_memory& shortage, std::uint64_t seen) noexcept;
  /// Releases what `cache` has kept for its retention at `now`; its thread does so by the clock.
  static void release_expired(chunk_cache& cache,
                              std::chrono::steady_clock::time_point now) noexcept;
};

}  // namespace hipvmm::detail
