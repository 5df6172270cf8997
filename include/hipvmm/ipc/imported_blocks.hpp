// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm {

namespace detail {
class imported_block_map;
}  // namespace detail

/// A block of another process's pool, mapped by imported_blocks::add(). The destructor ends the use
/// of the block; the mapping stays for later blocks.
/// Pre: when it ends, no work in flight uses the block.
class imported_block {
 public:
  imported_block() noexcept = default;
  ~imported_block();
  imported_block(imported_block&& other) noexcept
      : mirror_{std::move(other.mirror_)},
        offset_{std::exchange(other.offset_, 0)},
        bytes_{std::exchange(other.bytes_, 0)} {}
  imported_block& operator=(imported_block&& other) noexcept;

  [[nodiscard]] void* data() const noexcept;  ///< nullptr when empty
  /// At least the requested size, because pools round up.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return mirror_ == nullptr; }

 private:
  friend class imported_blocks;
  imported_block(std::shared_ptr<detail::imported_block_map> mirror, std::size_t offset,
                 std::size_t bytes) noexcept
      : mirror_{std::move(mirror)}, offset_{offset}, bytes_{bytes} {}

  std::shared_ptr<detail::imported_block_map> mirror_;
  std::size_t offset_ = 0;
  std::size_t bytes_ = 0;
};

/// The memory of a pool, or region, of another process. Each chunk has the same offset here as
/// there, so a block over several chunks is one range of addresses. A chunk's first block maps it.
/// - Thread-safe. In a child of fork() add(), release_unused() and chunks() throw unsupported.
/// - Chunks stay mapped, and their memory held, until another takes their place, release_unused(),
///   or the end of this object and all its blocks.
/// - The exporter is trusted with contents only: offsets, sizes and descriptors are checked.
class imported_blocks {
 public:
  /// Reserves `max_bytes` bytes of addresses, rounded up to whole granules. Pass the exporter's
  /// number: statistics().address_bytes of a pool, max_bytes() of a region. `rights` names devices
  /// of this process; `device`, the owner of the memory, has read_write by default.
  /// Throws: std::invalid_argument; out_of_memory without that many addresses; unsupported without
  /// virtual memory management, or if a device of `rights` cannot reach the memory.
  imported_blocks(device_ref device, std::size_t max_bytes, const access_list& rights = {});
  ~imported_blocks();
  imported_blocks(imported_blocks&& other) noexcept;
  imported_blocks& operator=(imported_blocks&& other) noexcept;

  /// Maps the chunks of `block` that are not mapped yet, and closes its descriptors. A chunk that
  /// took the place of another one in the exporter replaces it here too.
  /// Throws (the block is not added, other blocks are unchanged):
  /// - std::invalid_argument, std::out_of_range if the chunks have gaps or exceed the addresses, or
  ///   if a chunk would replace one that an imported_block still uses: the exporter deallocated
  ///   that block too early.
  /// - the errors of import_chunk() and region::adopt().
  [[nodiscard]] imported_block add(exported_range block);
  /// Unmaps the chunks that no block uses, and returns their bytes. Pre: no work in flight uses
  /// them. Throws: hip_error.
  std::size_t release_unused();
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] device_ref device() const;

 private:
  [[nodiscard]] detail::imported_block_map& live() const;
  std::shared_ptr<detail::imported_block_map> mirror_;
};

}  // namespace hipvmm
