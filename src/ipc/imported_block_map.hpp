// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>
#include "core/owner_process.hpp"

namespace hipvmm::detail {

/// Reserves a region for chunks of another process, with as many addresses as that process has.
/// Throws: out_of_memory, with `advice`, without that many addresses. `placement`: of the devices
/// whose chunks it takes.
[[nodiscard]] region reserve_mirror(device_ref device, std::size_t max_bytes,
                                    const access_list& rights, const std::string& advice,
                                    const chunk_placement& placement = {});

/// The implementation of imported_blocks: the chunks here by offset, and how many blocks use each.
/// Thread-safe. In a child of fork() all but end_use() throw unsupported: a thread of the parent
/// may have the lock.
class imported_block_map {
 public:
  imported_block_map(device_ref device, std::size_t max_bytes, const access_list& rights);

  /// Maps the chunks of `block`, and counts one use of each.
  void add(const exported_range& block);
  /// Ends a use. Pre: add() began it.
  void end_use(std::size_t offset, std::size_t bytes) noexcept;
  // Like the functions of imported_blocks with these names.
  std::size_t release_unused();
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] device_ref device() const { return memory_.device(); }

  [[nodiscard]] void* address_of(std::size_t offset) const noexcept {
    return static_cast<std::byte*>(memory_.base()) + offset;
  }

 private:
  struct mapped_chunk {
    std::size_t bytes;
    std::uint64_t serial;  // the exporter's
    std::size_t uses;      // blocks
  };
  using chunk_map = std::map<std::size_t, mapped_chunk>;

  /// The first chunk that ends behind `offset`.
  [[nodiscard]] chunk_map::iterator first_behind(std::size_t offset);
  [[nodiscard]] bool is_mapped(const exported_chunk& chunk) const;
  /// Throws: std::invalid_argument if a chunk that is used is in its place.
  void require_free_place(const exported_chunk& chunk);
  /// Maps `wanted` in place of others, neighbours together, all or none.
  void map(const std::vector<const exported_chunk*>& wanted);
  /// Unmaps [first, last), between which nothing else is mapped. Returns the bytes.
  std::size_t unmap(chunk_map::iterator first, chunk_map::iterator last);

  const owner_process process_;
  mutable std::mutex mutex_;
  region memory_;
  chunk_map mapped_;
};

}  // namespace hipvmm::detail
