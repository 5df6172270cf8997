// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/region.hpp>
#include "core/background_task.hpp"
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

/// Unmaps all `backings` and passes their chunks to `cache`; what HIP refuses is reported.
void give_back(backing_map& backings, chunk_cache& cache) noexcept;

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
  /// End of the last backing.
  [[nodiscard]] std::size_t end() const noexcept;
  /// Whether the chunk that was prepared lies partly in [offset, offset + bytes), where nothing
  /// else can be mapped then. Pre, for all that follows: nothing is pending.
  [[nodiscard]] bool is_prepared_within(std::size_t offset, std::size_t bytes) const noexcept;
  /// New backings for [offset, offset + bytes) and an order that was taken back there; none when
  /// there is no such order or no memory for all of it. Voids the order.
  [[nodiscard]] backing_map make_ordered(std::size_t offset, std::size_t bytes);
  /// Gives back what is prepared or on its way, and allows to prepare again.
  void drop_prepared();
  void note_failed_preparation() noexcept;
  /// Takes the chunks behind `end` out, to be given back when `stream` has passed this point.
  /// Returns false, nothing done, where the caller must wait for the stream itself.
  [[nodiscard]] bool retire_behind(std::size_t end, stream_ref stream);
  /// Takes all chunks out, to be given back when the devices with access have passed this point.
  /// Returns false, nothing done, where the caller must wait for them itself.
  [[nodiscard]] bool retire_all() noexcept;
  /// The chunk that begins before `end` and reaches beyond makes place for one that ends there.
  void replace_straddler(std::size_t end, stream_ref stream);

  device_ref device;
  region_options options;
  std::size_t granularity;
  // The order of these two unmaps everything before the addresses are freed. Shared with chunks
  // that have left the backings and are still mapped.
  std::shared_ptr<address_range> addresses;
  backing_map backings;
  access_map rights;
  std::size_t committed = 0;

  /// What was prepared, as a part of the region while this lives, and for good once kept.
  class adoption;
  struct preparation_order {
    std::size_t offset;
    std::size_t bytes;
    ahead how;
  };
  /// The body of `preparation`. Reads what else the region owns: whoever changes that settles
  /// first.
  void prepare() noexcept;

  // Set while pending, and from the time when an order is taken back until it is filled or void.
  std::optional<preparation_order> ordered;
  // At most one chunk, not counted in `committed`, mapped or not. The node is what `backings` gets.
  backing_map prepared;
  bool may_prepare = true;  // not after a failure
  std::atomic<std::size_t> failed_preparations{0};
  // Last, for it is to be settled before anything it uses goes.
  detail::background_task preparation{[this] { prepare(); }};
};

class region::state::adoption {
 public:
  /// Settles, and maps the chunk if it is not yet.
  explicit adoption(state& owner);
  ~adoption();
  adoption(const adoption&) = delete;
  adoption& operator=(const adoption&) = delete;
  void keep() noexcept { offset_.reset(); }

 private:
  state& owner_;
  std::optional<std::size_t> offset_;
};

}  // namespace hipvmm
