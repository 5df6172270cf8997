// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "mr/pool/address_space.hpp"
#include "mr/pool/block.hpp"

namespace hipvmm::mr::pool {

/// Which addresses of a pool are free, used or unmapped, and which chunks back them. Knows nothing
/// of streams: owners are trees of free blocks to it. Offsets count from the start of the pool's
/// addresses. Not thread-safe.
class block_index {
 public:
  /// Unit of all sizes and offsets.
  static constexpr std::size_t unit = 256;

  struct chunk {
    std::size_t bytes;
    std::uint64_t order;  ///< of creation
  };
  using chunk_map = std::map<std::size_t, chunk>;  ///< by offset
  using blocks = std::vector<block*>;

  /// `base`: the address of offset 0, for alignments. Blocks of `idle` join those of any owner.
  block_index(std::size_t address_bytes, std::uintptr_t base, block_owner& idle);

  [[nodiscard]] std::size_t address_bytes() const noexcept { return address_bytes_; }
  [[nodiscard]] std::uintptr_t base() const noexcept { return base_; }
  /// Pre: no block is used.
  void set_base(std::uintptr_t base) noexcept { base_ = base; }
  /// The first offset from `offset` on whose address is a multiple of `alignment`.
  [[nodiscard]] std::size_t aligned(std::size_t offset, std::size_t alignment) const noexcept {
    return ((base_ + offset + alignment - 1) & ~(alignment - 1)) - base_;
  }
  /// Makes the next `count` cuts and the next make_used() unable to fail. Throws: std::bad_alloc.
  void prepare_for(std::size_t count) { space_.prepare_for(count); }
  [[nodiscard]] block& front() const noexcept { return space_.front(); }
  [[nodiscard]] std::size_t block_count() const noexcept { return space_.blocks(); }
  [[nodiscard]] std::size_t used_blocks() const noexcept { return space_.used_blocks(); }
  [[nodiscard]] block* find(std::size_t offset) noexcept { return space_.find(offset); }

  // Finding free blocks.
  /// The smallest of `from` that holds `bytes` bytes so aligned; nullptr when there is none.
  [[nodiscard]] block* best_fit(block_owner& from, std::size_t bytes,
                                std::size_t alignment) const noexcept;
  /// The same of `from` and of idle memory.
  [[nodiscard]] block* best_fit_or_idle(block_owner& from, std::size_t bytes,
                                        std::size_t alignment) const noexcept;

  // Free to busy. Pre: prepared for two cuts.
  /// Makes [at, at + bytes) of a free block busy; what is left of it stays free.
  block& take(block& from, std::size_t at, std::size_t bytes) noexcept;
  void take_whole(block& from) noexcept;
  /// Makes the free blocks of [begin, end) busy, from `first` on, cut to that range, and adds them
  /// to `claimed`. Throws: std::bad_alloc; then nothing changed.
  void claim(block& first, std::size_t begin, std::size_t end, blocks& claimed);
  // Busy to free, in the tree of its owner, merged with neighbours.
  void make_free(block& loose) noexcept;
  void unclaim(const blocks& claimed) noexcept;

  // Busy to used and back.
  /// Merges the busy blocks from `first` up to `end` into one used block of `owner`.
  block& make_used(block& first, std::size_t end, block_owner& owner, std::uint64_t epoch) noexcept;
  /// The used block of that size at `offset`, busy; nullptr, nothing done, when there is none.
  [[nodiscard]] block* take_used(std::size_t offset, std::size_t bytes) noexcept;

  // Unmapped to busy and back.
  /// Makes [at, at + bytes), or up to its end, of an unmapped block busy. Pre: prepared.
  block& take_unmapped(block& gap, std::size_t at, std::size_t bytes) noexcept;
  /// Cuts a busy block; both parts are busy.
  block& cut(block& busy, std::size_t bytes) noexcept { return space_.cut(busy, bytes); }
  /// Makes the busy blocks from `first` up to `end` one.
  void merge(block& first, std::size_t end) noexcept;
  void make_unmapped(block& loose) noexcept;

  // Chunks. A chunk is counted where it is mapped now; old addresses of it are busy blocks.
  [[nodiscard]] const chunk_map& chunks() const noexcept { return chunks_; }
  /// Adds what node `made` holds at `offset`, with a creation number of its own.
  void add_chunk(chunk_map::node_type made, std::size_t offset) noexcept;
  /// Takes the chunk out, to be put back by put_chunk() or dropped.
  [[nodiscard]] chunk_map::node_type take_chunk(std::size_t offset) noexcept;
  void put_chunk(chunk_map::node_type moved, std::size_t offset) noexcept;

  /// Bytes of chunks, and the most there were. The first may be read by any thread at any time.
  [[nodiscard]] std::size_t physical_bytes() const noexcept {
    return physical_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t physical_high() const noexcept { return physical_high_; }
  /// Bytes of used blocks, and the most there were.
  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_bytes_; }
  [[nodiscard]] std::size_t used_high() const noexcept { return used_high_; }
  void reset_highs() noexcept;
  /// `bytes` of what was used since the high was `before` do not count.
  void lower_used_high(std::size_t before, std::size_t bytes) noexcept;

 private:
  std::uintptr_t base_;
  std::size_t address_bytes_;
  block_owner& idle_;
  address_space space_;
  chunk_map chunks_;
  std::uint64_t next_chunk_ = 0;
  std::atomic<std::size_t> physical_bytes_{0};
  std::size_t physical_high_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t used_high_ = 0;
};

}  // namespace hipvmm::mr::pool
