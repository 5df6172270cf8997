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

/// Keeps unmapped chunks for reuse, by device, bytes and handle type. Thread-safe.
/// - The cache reuses chunks in the order of their creation, because mapping in physical order
///   keeps address translation cheap (docs/design/chunk_cache_design.md).
/// - Each device has its own byte limit and lock. The cache calls HIP outside these locks.
/// - If chunks cost file descriptors (shareable ones; on ROCm 7.14 all), kept chunks use at most
///   about half of the process's limit (`ulimit -n`).
/// - On ROCm 6.1 to 7.2 addresses pin the memory of each chunk that was ever mapped in them until
///   they are freed. A release would return nothing, so the cache keeps such a chunk beyond its
///   bounds, counts it in `bytes`, and reuses it first. At the cache's end shared() takes it over.
class chunk_cache {
 public:
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// The cache that every region of this process uses by default. It keeps all bytes for one
  /// second; meanwhile other processes and hipMalloc do not see them as free, but allocations of
  /// the library get them at once. `set_byte_limit(0)` turns it off.
  [[nodiscard]] static chunk_cache& shared();

  /// A cache of at most `byte_limit` bytes of each device. Zero for either argument keeps nothing.
  explicit chunk_cache(std::size_t byte_limit = 0, std::chrono::milliseconds retention = forever);
  ~chunk_cache();
  chunk_cache& operator=(chunk_cache&&) = delete;

  /// Returns a chunk of exactly these properties, cached or new; uncached memory is always new. If
  /// the device is full, the cache releases its chunks of that device and retries; without a
  /// descriptor, those of all devices. Throws: as the constructor of physical_chunk.
  [[nodiscard]] physical_chunk acquire(device_ref device, std::size_t bytes,
                                       handle_type shareable = handle_type::none,
                                       chunk_memory memory = chunk_memory::standard);
  /// Keeps an unmapped chunk. The cache does not reuse shared() and retained (retain_chunk())
  /// chunks, memory of the host and uncached memory, and releases them as soon as no addresses pin
  /// them. Pre: no work in flight uses the memory.
  void recycle(physical_chunk chunk) noexcept;

  /// Releases chunks to the driver, the first recycled first, until each device has at most
  /// `bytes_to_keep` left. Pinned chunks stay. Returns the bytes that the devices got back.
  std::size_t trim(std::size_t bytes_to_keep = 0) noexcept;
  /// The same for one device. Throws: std::invalid_argument when there is no such device.
  std::size_t trim(device_ref device, std::size_t bytes_to_keep = 0);
  /// Sets the byte limit of each device, and trims to it.
  void set_byte_limit(std::size_t byte_limit) noexcept;
  [[nodiscard]] std::size_t byte_limit() const noexcept;
  /// Sets how long chunks, present ones too, are kept without being acquired. A thread of the
  /// library releases a chunk at most an eighth of that time later.
  void set_retention(std::chrono::milliseconds retention) noexcept;
  [[nodiscard]] std::chrono::milliseconds retention() const noexcept;
  [[nodiscard]] chunk_cache_statistics statistics() const noexcept;
  /// Throws: std::invalid_argument when there is no such device.
  [[nodiscard]] chunk_cache_statistics statistics(device_ref device) const;

 private:
  // Retired memory may be released after the program's cache is destroyed.
  friend struct detail::retired_item;
  friend struct detail::cache_registry;
  struct state;
  explicit chunk_cache(std::shared_ptr<state> shared) noexcept;
  /// Pinned memory is kept for either.
  enum class purpose { reuse, release };
  [[nodiscard]] bool keep(physical_chunk& chunk, purpose why) noexcept;

  std::shared_ptr<state> state_;
};

}  // namespace hipvmm
