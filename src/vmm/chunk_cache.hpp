// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace hipvmm::detail {

struct cached_chunks;

/// Chunk cache functions for other parts of the library.
struct cache_registry {
  /// How often memory kept by chunk_cache::shared() was released so far.
  [[nodiscard]] static std::uint64_t times_released() noexcept;
  /// Releases all that chunk_cache::shared() keeps and that may relieve `shortage`. Returns whether
  /// this thread or another released anything since times_released() returned `seen`: then the
  /// request that failed may succeed.
  [[nodiscard]] static bool release_for(const out_of_memory& shortage, std::uint64_t seen) noexcept;
  /// Takes over `chunk`, which is to be released, if addresses pin its memory: `cache` counts
  /// it, may return it, and releases it when the memory returns. Returns whether it did.
  static bool keep_pinned(chunk_cache& cache, physical_chunk& chunk) noexcept;
  /// The chunks of the device in `cache`. Throws: std::invalid_argument when there is no such
  /// device.
  [[nodiscard]] static cached_chunks& of(const chunk_cache& cache, device_ref device);
  /// After addresses were freed: has each cache release chunks that it kept only because of them.
  static void release_unpinned() noexcept;
  /// Releases the chunks that `cache` has kept for its retention at `now`. The cache's thread does
  /// so by the clock.
  static void release_expired(chunk_cache& cache,
                              std::chrono::steady_clock::time_point now) noexcept;
};

}  // namespace hipvmm::detail
