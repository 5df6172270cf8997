// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace hipvmm::detail {

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
  /// Takes a pinned chunk of the device out of `cache`, as cached_chunks::take_pinned(); an empty
  /// one if none is kept.
  [[nodiscard]] static physical_chunk take_pinned(chunk_cache& cache, device_ref device,
                                                  std::size_t bytes, std::size_t most,
                                                  handle_type shareable);
  /// Takes a chunk of exactly these properties out of `cache`; an empty one if none is kept.
  [[nodiscard]] static physical_chunk take(chunk_cache& cache, device_ref device, std::size_t bytes,
                                           handle_type shareable);
  /// Bytes of the chunks that take() would return one by one, counted until they are `most`.
  [[nodiscard]] static std::size_t bytes_to_take(const chunk_cache& cache, device_ref device,
                                                 std::size_t bytes, handle_type shareable,
                                                 std::size_t most = static_cast<std::size_t>(-1));
  /// After addresses were freed: has each cache release chunks that it kept only because of them.
  static void release_unpinned() noexcept;
  /// For the end of the process: the shared cache releases all and keeps nothing more.
  static void end_shared() noexcept;
  /// Notes that the cache has pinned chunks.
  static void list(const std::shared_ptr<chunk_cache::state>& state) noexcept;
  /// Releases the chunks that `cache` has kept for its retention at `now`. The cache's thread does
  /// so by the clock.
  static void release_expired(chunk_cache& cache,
                              std::chrono::steady_clock::time_point now) noexcept;

 private:
  struct pinning_caches;
};

}  // namespace hipvmm::detail
