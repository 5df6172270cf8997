// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include <hipvmm/vmm/chunk_cache_statistics.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

namespace detail {
struct cache_registry;
struct retired_item;
}  // namespace detail

/// Keeps unmapped chunks for reuse, by device, bytes and handle type.
/// - Chunks are acquired in the order of their creation: chunks mapped in physical order keep
///   address translation cheap (docs/design/chunk_cache_design.md).
/// - Devices are independent: each has the whole byte limit, and a lock.
/// - If chunks cost file descriptors (shareable ones; on ROCm 7.14 all), kept chunks use at most
///   about half of the process's limit (`ulimit -n`).
/// - On ROCm 6.1 to 7.2 addresses pin the memory of each chunk that was ever mapped in them, until
///   they are freed. A release would return nothing: such a chunk stays in
///   the cache beyond its bounds and is counted in `bytes`, and acquire() returns it first. When
///   the last of these addresses are freed, the bounds apply to it again. If the cache ends before,
///   shared() has the chunk.
/// - Thread-safe; HIP is called outside these locks.
class chunk_cache {
 public:
  /// Retention without a time limit: chunks are kept until something other than time releases them.
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// The cache that every region of this process uses by default. It keeps all bytes for one
  /// second.
  /// - Free memory of the device, as other processes and hipMalloc see it, may lack what was
  ///   released in that second. Allocations of the library get that memory at once.
  /// - `set_byte_limit(0)` turns it off.
  [[nodiscard]] static chunk_cache& shared();

  /// Creates a separate cache. It holds at most `byte_limit` bytes of each device, none for longer
  /// than `retention` without a use; zero for either keeps nothing.
  explicit chunk_cache(std::size_t byte_limit = 0, std::chrono::milliseconds retention = forever);
  ~chunk_cache();
  chunk_cache& operator=(chunk_cache&&) = delete;

  /// Returns a chunk of exactly these properties, cached or new. Uncached memory is always new.
  /// - When the device is full, the cache releases its chunks of that device and tries again.
  /// - When the process is out of descriptors, it releases its chunks of all devices and tries
  ///   again.
  /// Throws: as the constructor of physical_chunk.
  [[nodiscard]] physical_chunk acquire(device_ref device, std::size_t bytes,
                                       handle_type shareable = handle_type::none,
                                       chunk_memory memory = chunk_memory::standard);
  /// Puts an unmapped chunk into the cache. acquire() does not return these, and the cache releases
  /// them as soon as no addresses pin them: shared() chunks, chunks of which one of retain_chunk()
  /// is left, memory of the host, uncached memory.
  /// Pre: nothing in flight uses its memory.
  void recycle(physical_chunk chunk) noexcept;

  /// Releases chunks to the driver, the first recycled first, until at most `bytes_to_keep` are
  /// held of each device. Pinned chunks stay, even if they exceed that. Returns the bytes released,
  /// all of which the device has then.
  std::size_t trim(std::size_t bytes_to_keep = 0) noexcept;
  /// The same for one device.
  /// Throws: std::invalid_argument when there is no such device.
  std::size_t trim(device_ref device, std::size_t bytes_to_keep = 0);
  /// Changes the byte limit, which applies to each device separately, and trims to it.
  void set_byte_limit(std::size_t byte_limit) noexcept;
  /// The byte limit: the most bytes held of each device.
  [[nodiscard]] std::size_t byte_limit() const noexcept;
  /// Changes how long a chunk is kept without being acquired, also for chunks held now. A thread of
  /// the library releases a chunk when that time has passed, and at most an eighth of it later.
  void set_retention(std::chrono::milliseconds retention) noexcept;
  /// How long a chunk is kept without being acquired; `forever` without a limit.
  [[nodiscard]] std::chrono::milliseconds retention() const noexcept;
  /// The statistics summed over all devices.
  [[nodiscard]] chunk_cache_statistics statistics() const noexcept;
  /// The statistics of one device.
  /// Throws: std::invalid_argument when there is no such device.
  [[nodiscard]] chunk_cache_statistics statistics(device_ref device) const;

 private:
  // Retired memory may be released after the program's cache is destroyed.
  friend struct detail::retired_item;
  friend struct detail::cache_registry;
  struct state;
  explicit chunk_cache(std::shared_ptr<state> shared) noexcept;
  /// The purpose of a chunk: memory that addresses hold is kept in either case.
  enum class purpose { reuse, release };
  [[nodiscard]] bool keep(physical_chunk& chunk, purpose why) noexcept;

  std::shared_ptr<state> state_;
};

}  // namespace hipvmm
