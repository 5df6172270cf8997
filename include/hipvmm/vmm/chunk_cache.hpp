// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

/// What a chunk_cache holds and did.
struct chunk_cache_statistics {
  std::size_t bytes;    ///< bytes held now
  std::size_t chunks;   ///< chunks held now
  std::size_t hits;     ///< acquisitions served from the cache
  std::size_t misses;   ///< acquisitions that created a chunk
  std::size_t dropped;  ///< chunks given back to the driver: over the limit, or by trim
};

/// Keeps unmapped chunks for reuse, by device, bytes and handle type, and hands them out in the
/// order they were created: chunks mapped in physical order keep address translation cheap
/// (docs/growth_design.md). Thread-safe; HIP is called outside its lock.
class chunk_cache {
 public:
  /// The cache every region of this process uses.
  [[nodiscard]] static chunk_cache& shared();

  /// A cache of its own that holds at most `byte_limit` bytes; zero keeps nothing.
  explicit chunk_cache(std::size_t byte_limit = 0);
  ~chunk_cache();
  chunk_cache(const chunk_cache&) = delete;
  chunk_cache& operator=(const chunk_cache&) = delete;

  /// A chunk of exactly these properties, cached or new. When the device is full, what the cache
  /// holds of it is given back to the driver and the creation is tried once more.
  /// Throws: as the constructor of physical_chunk.
  [[nodiscard]] physical_chunk acquire(device_ref device, std::size_t bytes,
                                       handle_type shareable = handle_type::none);
  /// Takes an unmapped chunk back. Pre: nothing in flight uses its memory.
  /// A chunk that is shared() is never kept: another process may still write to it.
  void recycle(physical_chunk chunk) noexcept;

  /// Gives chunks back to the driver, those recycled first going first, until at most
  /// `bytes_to_keep` are held; returns the bytes given back.
  std::size_t trim(std::size_t bytes_to_keep = 0) noexcept;
  /// Changes the limit and trims to it.
  void set_byte_limit(std::size_t byte_limit) noexcept;
  [[nodiscard]] std::size_t byte_limit() const noexcept;
  [[nodiscard]] chunk_cache_statistics statistics() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace hipvmm
