// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace hipvmm::detail {

struct cached_chunks;

struct cache_registry {
  [[nodiscard]] static std::uint64_t times_released() noexcept;
  /// Releases all of chunk_cache::shared() that may relieve `shortage`. Returns whether any thread
  /// has released something since times_released() was `seen`.
  [[nodiscard]] static bool release_for(const out_of_memory& shortage, std::uint64_t seen) noexcept;
  /// If addresses pin the memory of `chunk`, `cache` takes it over until they are freed, and may
  /// reuse it. Returns whether it did.
  static bool keep_pinned(chunk_cache& cache, physical_chunk& chunk) noexcept;
  /// Throws: std::invalid_argument if there is no such device.
  [[nodiscard]] static cached_chunks& of(const chunk_cache& cache, device_ref device);
  /// Each cache releases chunks that it kept only for addresses freed since.
  static void release_unpinned() noexcept;
  static void release_expired(chunk_cache& cache,
                              std::chrono::steady_clock::time_point now) noexcept;
};

}  // namespace hipvmm::detail
