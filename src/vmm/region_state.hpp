// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>

#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/region.hpp>
#include "vmm/address_range.hpp"

namespace hipvmm {

/// A chunk and where it is mapped. The members' order unmaps before it releases.
struct backing {
  physical_chunk chunk;
  mapping map;

  [[nodiscard]] std::size_t bytes() const noexcept { return chunk.bytes(); }
};

/// By offset in the region. Adjacent backings may touch, never overlap.
using backing_map = std::map<std::size_t, backing>;

/// What a region owns, and the steps its operations are made of.
struct region::state {
  state(device_ref owner, std::size_t max_bytes, const region_options& chosen);
  ~state();
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  [[nodiscard]] chunk_cache& cache() const noexcept {
    return options.cache != nullptr ? *options.cache : chunk_cache::shared();
  }

  void require_units(const char* function, std::size_t offset, std::size_t bytes) const;
  void require_within(const char* function, std::size_t offset, std::size_t bytes) const;

  /// Applies all rights to the fresh mapping of `bytes` bytes at `offset`. All backings before it
  /// and those of `made` are mapped in `range`.
  void apply_rights(const address_range& range, std::size_t offset, std::size_t bytes,
                    const backing_map& made) const;
  /// Sets one device's right over the mapping at `offset`.
  void set_right(std::size_t offset, std::size_t bytes, access_desc desc) const;

  [[nodiscard]] mapping map_with_rights(const address_range& range, std::size_t offset,
                                        const physical_chunk& chunk,
                                        const backing_map& made = {}) const;
  /// New backings in `range` for all of [offset, offset + bytes) that has none, ready to be merged.
  [[nodiscard]] backing_map make_missing(const address_range& range, std::size_t offset,
                                         std::size_t bytes) const;
  /// make_missing, whose out_of_memory tells what the region holds.
  [[nodiscard]] backing_map make_missing_or_explain(const address_range& range, std::size_t offset,
                                                    std::size_t bytes) const;
  void merge(backing_map& made) noexcept;
  /// Maps a chunk again where it was; what HIP refuses is reported, and the bytes are then lost.
  void restore(backing_map::iterator entry) noexcept;
  /// The chunk that begins before `end` and reaches beyond makes place for one that ends there.
  void replace_straddler(std::size_t end, stream_ref stream);

  device_ref device;
  region_options options;
  std::size_t granularity;
  // The order of these two unmaps everything before the addresses are freed.
  address_range addresses;
  backing_map backings;
  access_map rights;
  std::size_t committed = 0;
};

}  // namespace hipvmm
