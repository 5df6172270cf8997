// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

namespace detail {
struct kept_memory;
struct retired_chunks;
}  // namespace detail

/// What a chunk_cache holds and did. It helps as far as `hits` exceed `misses`; where `dropped`
/// grows as fast as `misses`, its limit is too low for what the program gives back and wants again,
/// or, where `expired` does too, its retention too short.
struct chunk_cache_statistics {
  std::size_t bytes;        ///< bytes held now
  std::size_t chunks;       ///< chunks held now
  std::size_t peak_bytes;   ///< most bytes held at a time; for all devices the sum of their peaks
  std::size_t peak_chunks;  ///< most chunks held at a time, as peak_bytes
  std::size_t hits;         ///< acquisitions served from the cache
  std::size_t misses;       ///< acquisitions that had to create a chunk
  std::size_t refused;      ///< of these: for which memory or descriptors were lacking to the end
  std::size_t dropped;      ///< chunks released to the driver: shared with another process, over
                            ///< the byte limit or the descriptor budget, by trim, by a full device,
                            ///< expired
  std::size_t expired;      ///< of these: kept for the retention without being acquired
};

/// Keeps unmapped chunks for reuse, by device, bytes and handle type, and hands them out in the
/// order they were created: chunks mapped in physical order keep address translation cheap
/// (docs/design/growth_design.md). Devices do not meet: each has the byte limit to itself, and a
/// lock. Where chunks cost file descriptors (shareable ones; on ROCm 7.14 all), those kept spend at
/// most about half of the process's limit (`ulimit -n`). Thread-safe; HIP is called outside these
/// locks.
class chunk_cache {
 public:
  /// Keeps chunks until something else than time releases them.
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// The cache every region of this process uses. It keeps all bytes for one second: free memory of
  /// the device, which other processes and hipMalloc see, may lack what was released since then.
  /// `set_byte_limit(0)` turns it off. What the library allocates gets the memory at once.
  [[nodiscard]] static chunk_cache& shared();

  /// A cache of its own that holds at most `byte_limit` bytes of each device, none for longer than
  /// `retention` without a use; zero for either keeps nothing.
  explicit chunk_cache(std::size_t byte_limit = 0, std::chrono::milliseconds retention = forever);
  ~chunk_cache();
  chunk_cache(const chunk_cache&) = delete;
  chunk_cache& operator=(const chunk_cache&) = delete;

  /// A chunk of exactly these properties, cached or new. When the device is full, what the cache
  /// holds of it is given back to the driver and the creation is tried again; when the process is
  /// out of descriptors, what it holds of all devices.
  /// Throws: as the constructor of physical_chunk.
  [[nodiscard]] physical_chunk acquire(device_ref device, std::size_t bytes,
                                       handle_type shareable = handle_type::none);
  /// Takes an unmapped chunk back. Pre: nothing in flight uses its memory.
  /// A chunk that is shared() is never kept: another process may still write to it.
  void recycle(physical_chunk chunk) noexcept;

  /// Gives chunks back to the driver, those recycled first going first, until at most
  /// `bytes_to_keep` are held of each device; returns the bytes given back.
  std::size_t trim(std::size_t bytes_to_keep = 0) noexcept;
  /// Same, for one device. Throws: std::invalid_argument when there is no such device.
  std::size_t trim(device_ref device, std::size_t bytes_to_keep = 0);
  /// Changes the limit, which each device has to itself, and trims to it.
  void set_byte_limit(std::size_t byte_limit) noexcept;
  /// Most bytes held of each device.
  [[nodiscard]] std::size_t byte_limit() const noexcept;
  /// Changes how long a chunk is kept that nobody acquires, of those held too. A thread of the
  /// library releases a chunk when that time has passed, and at most an eighth of it later.
  void set_retention(std::chrono::milliseconds retention) noexcept;
  /// How long a chunk is kept that nobody acquires; `forever` without such a bound.
  [[nodiscard]] std::chrono::milliseconds retention() const noexcept;
  /// The sums over all devices.
  [[nodiscard]] chunk_cache_statistics statistics() const noexcept;
  /// Those of one device. Throws: std::invalid_argument when there is no such device.
  [[nodiscard]] chunk_cache_statistics statistics(device_ref device) const;

 private:
  // Memory that was retired may come back after the program's cache is gone.
  friend struct detail::retired_chunks;
  friend struct detail::kept_memory;
  struct state;
  explicit chunk_cache(std::shared_ptr<state> shared) noexcept;

  std::shared_ptr<state> state_;
};

}  // namespace hipvmm
