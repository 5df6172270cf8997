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

/// Reserves addresses for chunks of another process, which belong to the devices of `placement`.
/// Throws: out_of_memory with `advice` if fewer than `max_bytes` can be had.
[[nodiscard]] region reserve_mirror(device_ref device, std::size_t max_bytes,
                                    const access_list& rights, const std::string& advice,
                                    const chunk_placement& placement = {});

/// A child of fork() must not take the lock, because a thread of the parent may hold it.
class imported_block_map {
 public:
  imported_block_map(device_ref device, std::size_t max_bytes, const access_list& rights);

  /// Maps the chunks of `block` that are not mapped yet, and counts one use of each.
  void add(const exported_range& block);
  void end_use(std::size_t offset, std::size_t bytes) noexcept;  ///< pre: add() has counted it
  std::size_t release_unused();
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  [[nodiscard]] device_ref device() const { return memory_.device(); }

  [[nodiscard]] void* address_of(std::size_t offset) const noexcept {
    return static_cast<std::byte*>(memory_.base()) + offset;
  }

 private:
  struct mapped_chunk {
    std::size_t bytes;
    std::uint64_t serial;
    std::size_t uses;
  };
  using chunk_map = std::map<std::size_t, mapped_chunk>;

  [[nodiscard]] chunk_map::iterator first_behind(std::size_t offset);
  [[nodiscard]] bool is_mapped(const exported_chunk& chunk) const;
  void require_free_place(const exported_chunk& chunk);
  /// Unmaps chunks in their places, then maps `wanted`, all or none.
  void map(const std::vector<const exported_chunk*>& wanted);
  /// Pre: nothing else is mapped between the two. Returns the unmapped bytes.
  std::size_t unmap(chunk_map::iterator first, chunk_map::iterator last);

  const owner_process process_;
  mutable std::mutex mutex_;
  region memory_;
  chunk_map mapped_;
};

}  // namespace hipvmm::detail
