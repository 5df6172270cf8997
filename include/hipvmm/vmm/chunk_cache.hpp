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
/// - It reuses chunks in the order of their creation (docs/design/chunk_cache_design.md).
/// - If chunks cost descriptors (shareable ones; on ROCm 7.14 all), kept ones use at most about
///   half of the process's (`ulimit -n`).
/// - On ROCm 6.1 to 7.2 addresses pin the memory of each chunk that was ever mapped in them until
///   they are freed: a release would return nothing. The cache keeps such chunks beyond its bounds,
///   counts them in `bytes` and reuses them first; shared() takes them over at the cache's end.
class chunk_cache {
 public:
  static constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

  /// The cache that every region of this process uses by default. It keeps chunks for one second,
  /// in which other processes and hipMalloc lack them. `set_byte_limit(0)` turns it off.
  [[nodiscard]] static chunk_cache& shared();

  /// Keeps at most `byte_limit` bytes of each device. Zero for either argument keeps nothing.
  explicit chunk_cache(std::size_t byte_limit = 0, std::chrono::milliseconds retention = forever);
  ~chunk_cache();
  chunk_cache& operator=(chunk_cache&&) = delete;

  /// Returns a chunk of exactly these properties, cached or new; uncached memory is always new. If
  /// the device is full, the cache releases its chunks of it and retries; if descriptors lack,
  /// those of all devices. Throws: as the constructor of physical_chunk.
  [[nodiscard]] physical_chunk acquire(device_ref device, std::size_t bytes,
                                       handle_type shareable = handle_type::none,
                                       chunk_memory memory = chunk_memory::standard);
  /// Keeps an unmapped chunk. Shared, retained (retain_chunk()), host and uncached memory is not
  /// reused, but released as soon as no addresses pin it. Pre: no work in flight uses the memory.
  void recycle(physical_chunk chunk) noexcept;

  /// Releases chunks to the driver, the first recycled first, down to `bytes_to_keep` of each
  /// device. Pinned chunks stay. Returns the bytes that the devices got back.
  std::size_t trim(std::size_t bytes_to_keep = 0) noexcept;
  /// Throws: std::invalid_argument when there is no such device.
  std::size_t trim(device_ref device, std::size_t bytes_to_keep = 0);
  /// Sets the limit of each device and trims to it.
  void set_byte_limit(std::size_t byte_limit) noexcept;
  [[nodiscard]] std::size_t byte_limit() const noexcept;
  /// Sets the time after which a chunk that nobody acquires is released, at most an eighth of it
  /// later. Applies to present chunks too.
  void set_retention(std::chrono::milliseconds retention) noexcept;
  [[nodiscard]] std::chrono::milliseconds retention() const noexcept;
  [[nodiscard]] chunk_cache_statistics statistics() const noexcept;
  /// Throws: std::invalid_argument when there is no such device.
  [[nodiscard]] chunk_cache_statistics statistics(device_ref device) const;

 private:
  // For retired memory that is released after the program's cache is destroyed.
  friend struct detail::retired_item;
  friend struct detail::cache_registry;
  struct state;
  explicit chunk_cache(std::shared_ptr<state> shared) noexcept;
  enum class purpose { reuse, release };
  [[nodiscard]] bool keep(physical_chunk& chunk, purpose why) noexcept;

  std::shared_ptr<state> state_;
};

}  // namespace hipvmm
