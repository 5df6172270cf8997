// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <hipvmm/container/slot_arena_options.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "region/sleep/memory_tag.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::detail {

/// Sizes are bytes.
struct slot_geometry {
  std::size_t slots;
  std::size_t planes;
  std::size_t most;    // of a slot
  std::size_t block;   // of a chunk
  std::size_t stride;  // from slot to slot
  std::size_t plane;   // from plane to plane

  slot_geometry(device_ref device, const slot_arena_options& options);

  [[nodiscard]] std::size_t start(std::size_t slot) const noexcept { return slot * stride; }
  [[nodiscard]] std::size_t first_row(std::size_t slot) const noexcept {
    return start(slot) / block;
  }
  [[nodiscard]] std::size_t rows_for(std::size_t slot, std::size_t bytes) const noexcept {
    return bytes == 0 ? 0 : (start(slot) + bytes - 1) / block - first_row(slot) + 1;
  }
  [[nodiscard]] std::size_t bytes_in(std::size_t slot, std::size_t rows) const noexcept {
    if (rows == 0) return 0;
    const std::size_t end = (first_row(slot) + rows) * block - start(slot);
    return end < most ? end : most;
  }
  [[nodiscard]] std::size_t row_bytes() const noexcept { return planes * block; }
  [[nodiscard]] bool packs() const noexcept { return stride % block != 0; }
};

/// The memory of a slot_arena. A row is one block in every plane, and is backed as a whole while a
/// slot claims it. A function that throws may leave rows backed in their first planes only; a later
/// call continues from there.
class row_memory {
 public:
  row_memory(device_ref device, const slot_geometry& geometry, const slot_arena_options& options);

  /// Backs the next plane of `row`. Pre: not is_backed(). Throws: as region::commit().
  void back_next(std::size_t row);
  /// Backs `count` rows, which are empty, by one commit for each plane. Throws: as back_next().
  void back_run(std::size_t row, std::size_t count);
  /// Pre: nothing in flight uses the rows. Throws: as region::decommit().
  void decommit(std::size_t row, std::size_t count = 1);
  void decommit_unclaimed();
  [[nodiscard]] bool is_backed(std::size_t row) const noexcept {
    return rows_[row].backed_planes == geometry_.planes;
  }
  /// False also if HIP refused to unmap shared memory there.
  [[nodiscard]] bool is_empty(std::size_t row) const noexcept {
    return rows_[row].backed_planes == 0 && is_private(row);
  }
  /// Those that are backed, wholly or in part.
  [[nodiscard]] std::size_t unclaimed_rows() const noexcept { return unclaimed_rows_; }
  /// Pre: unclaimed_rows() != 0.
  [[nodiscard]] std::size_t find_unclaimed() const noexcept;

  void claim(std::size_t row) noexcept;
  /// Returns whether no claim is left.
  bool unclaim(std::size_t row) noexcept;

  /// Maps the memory of `count` rows from `from` on also at the rows from `to` on, there read-only.
  /// Pre: the first are backed; nothing uses the others; aliases are coherent. Throws: as
  /// region::adopt() and region::set_access(); then the others are not backed, unless HIP refuses
  /// to unmap them.
  void share(std::size_t from, std::size_t to, std::size_t count);
  /// Copies shared ones of `rows` to memory of their own and makes all writable. Waits for
  /// `stream`. Pre: all are backed. Throws: as copy_chunks() and region::set_access(); then the
  /// bytes are the same, and is_private() tells which rows have changed.
  void make_private(const std::vector<std::size_t>& rows, stream_ref stream);
  /// Whether no other row maps the row's memory, and it is not read-only.
  [[nodiscard]] bool is_private(std::size_t row) const noexcept {
    const row_state& state = rows_[row];
    return !state.is_read_only && !is_shared(state);
  }
  [[nodiscard]] std::size_t count_shared(const std::vector<std::size_t>& rows) const noexcept;
  /// The number of those rows that map memory of an earlier one.
  [[nodiscard]] std::size_t count_aliases(const std::vector<bool>& counts) const;

  /// Shared memory counts once.
  [[nodiscard]] std::size_t mapped_bytes() const noexcept {
    return region_.committed_bytes() - alias_bytes();
  }
  [[nodiscard]] std::size_t alias_bytes() const noexcept { return aliases_ * geometry_.block; }
  [[nodiscard]] std::size_t kept_bytes() const noexcept;
  /// Bytes of kept chunks without another owner, counted up to `most`.
  [[nodiscard]] std::size_t reusable_bytes(std::size_t most = static_cast<std::size_t>(-1)) const;
  [[nodiscard]] std::size_t cached_bytes() const;
  /// Bytes of a program's cache that rows may get, beyond those that creatable() counts.
  [[nodiscard]] std::size_t usable_cached_bytes() const;
  [[nodiscard]] std::size_t held_bytes() const noexcept { return mapped_bytes() + kept_bytes(); }
  /// Whether addresses pin the memory of decommitted chunks, which the own cache then keeps.
  [[nodiscard]] bool returns_when_empty() const noexcept {
    return own_cache_ && strategy_.pins_memory;
  }
  /// Returns memory that only the addresses hold, if nothing is backed.
  void return_pinned() noexcept;
  /// Trims the own cache to `bytes`; chunks that addresses pin stay.
  void trim_kept(std::size_t bytes) noexcept;
  [[nodiscard]] bool fits(const idle_request& wanted) const noexcept;
  /// Whether the taker is this arena's cache, which gets decommitted chunks anyway.
  [[nodiscard]] bool is_taker(const idle_request& wanted) const noexcept {
    return wanted.taker == &cache_ && fits(wanted);
  }
  /// Gives cached chunks away, until `given` is as much as `wanted`.
  void give_kept(const idle_request& wanted, given_memory& given);
  void retire() noexcept { region_.retire(); }
  [[nodiscard]] const region& memory() const noexcept { return region_; }
  [[nodiscard]] const memory_strategy& strategy() const noexcept { return strategy_; }
  [[nodiscard]] sleep_participant& chunks() { return sleep_participant_of(region_); }
  [[nodiscard]] const sleep_participant& chunks() const {
    return sleep_participant_of(const_cast<region&>(region_));
  }

 private:
  /// For each plane, the number of rows that map the same memory.
  using group = std::vector<std::uint32_t>;
  struct row_state {
    std::uint32_t claims = 0;
    std::uint32_t backed_planes = 0;
    bool is_read_only = false;
    std::shared_ptr<group> shown_by = nullptr;  // null unless the memory is shared
  };
  [[nodiscard]] static bool is_shared(const row_state& row) noexcept {
    return row.shown_by.use_count() > 1;
  }
  void join_group(row_state& row, const std::shared_ptr<group>& shown_by) noexcept;
  void leave_group(row_state& row) noexcept;
  void note_shown(row_state& row, std::size_t plane) noexcept;
  void note_hidden(row_state& row, std::size_t plane) noexcept;
  template <typename Change>
  void change(std::size_t row, Change how);
  [[nodiscard]] static std::size_t counts_as_unclaimed(const row_state& row) noexcept {
    return row.claims == 0 && row.backed_planes != 0 ? 1 : 0;
  }
  [[nodiscard]] std::size_t offset(std::size_t row, std::size_t plane) const noexcept {
    return plane * geometry_.plane + row * geometry_.block;
  }

  slot_geometry geometry_;
  std::unique_ptr<chunk_cache> own_cache_;
  chunk_cache& cache_;  // own_cache_ or the program's
  const memory_strategy strategy_;
  region region_;
  std::vector<row_state> rows_;
  std::size_t unclaimed_rows_ = 0;
  std::size_t grouped_ = 0;  // rows with a group
  std::size_t aliases_ = 0;  // mappings of chunks beyond the first of each
};

}  // namespace hipvmm::detail
