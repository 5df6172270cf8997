// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/intrusive/unordered_set.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "mr/pool/allocator/block.hpp"

namespace hipvmm::mr::pool {

/// Which of a pool's addresses are free, used or unmapped, and which chunks back them. Offsets
/// count from the first address. Not thread-safe.
class block_index {
 public:
  /// Bytes: the unit of all sizes and offsets.
  static constexpr std::size_t unit = 256;

  struct chunk {
    std::size_t bytes;
    std::uint64_t order;  ///< of creation
  };
  using chunk_map = std::map<std::size_t, chunk>;  ///< by offset
  using blocks = std::vector<block*>;

  /// `base`: the address of offset 0. Blocks of `idle` merge with those of any owner.
  block_index(std::size_t address_bytes, std::uintptr_t base, block_owner& idle);
  ~block_index() { used_.clear(); }
  block_index& operator=(block_index&&) = delete;

  [[nodiscard]] std::size_t address_bytes() const noexcept { return address_bytes_; }
  /// For any thread at any time.
  [[nodiscard]] std::uintptr_t base() const noexcept {
    return base_.load(std::memory_order_relaxed);
  }
  /// Pre: no block is used.
  void set_base(std::uintptr_t base) noexcept { base_.store(base, std::memory_order_relaxed); }
  [[nodiscard]] std::size_t aligned(std::size_t offset, std::size_t alignment) const noexcept {
    return ((base() + offset + alignment - 1) & ~(alignment - 1)) - base();
  }
  /// Reserves memory for `count` cuts and as many more used blocks, so that these cannot fail.
  /// Throws: std::bad_alloc.
  void prepare_for(std::size_t count);
  /// Cuts in reserve for each growth: slow_path::finish() makes up to three and must not allocate.
  static constexpr std::size_t kept_spare = 3;
  void begin_growth() noexcept { ++growths_; }
  void end_growth() noexcept { --growths_; }
  [[nodiscard]] block& front() const noexcept { return *front_; }
  [[nodiscard]] std::size_t used_blocks() const noexcept { return used_.size(); }
  [[nodiscard]] block* find(std::size_t offset) noexcept;

  [[nodiscard]] block* best_fit(block_owner& from, std::size_t bytes,
                                std::size_t alignment) const noexcept;
  [[nodiscard]] block* best_fit_or_idle(block_owner& from, std::size_t bytes,
                                        std::size_t alignment) const noexcept;

  // Free to busy. Pre: prepared for two cuts.
  block& take(block& from, std::size_t at, std::size_t bytes) noexcept;
  void take_whole(block& from) noexcept;
  /// Makes free blocks from `begin` on busy, up to `end` or to one that is not free. `first`: at or
  /// before `begin`. Throws: std::bad_alloc; then nothing changed.
  void claim(block& first, std::size_t begin, std::size_t end, blocks& claimed);
  // Busy to free, in the tree of its owner, merged with neighbours.
  void make_free(block& loose) noexcept;
  void unclaim(const blocks& claimed) noexcept;

  // Busy to used and back.
  /// Merges the busy blocks from `first` up to `end`.
  block& make_used(block& first, std::size_t end, block_owner& owner, std::uint64_t epoch) noexcept;
  /// Makes a used block of that size busy; nullptr, nothing done, if there is none.
  [[nodiscard]] block* take_used(std::size_t offset, std::size_t bytes) noexcept;

  /// Calls visit(first, last) for each stretch of adjacent free blocks, and for each single one of
  /// at least `bytes` bytes. Costs nothing for used blocks, nor for isolated smaller ones.
  template <typename Visit>
  void for_each_stretch(std::size_t bytes, Visit visit) const;
  /// By size, then by address.
  [[nodiscard]] block_tree& unmapped() const noexcept { return unmapped_; }
  [[nodiscard]] block_tree& leaving() const noexcept { return leaving_; }
  [[nodiscard]] std::size_t unmapped_bytes() const noexcept { return unmapped_bytes_; }

  // Busy to leaving, an old address of a chunk that `owner` uses until `epoch`, and back.
  void make_leaving(block& old, block_owner& owner, std::uint64_t epoch) noexcept;
  void take_leaving(block& old) noexcept;

  // Unmapped to busy and back.
  /// Makes [at, at + bytes), or what of it is in `gap`, busy. Pre: prepared.
  block& take_unmapped(block& gap, std::size_t at, std::size_t bytes) noexcept;
  /// Returns the rest, with the same attributes. Pre: prepared; `whole` is in no tree and not used.
  block& cut(block& whole, std::size_t bytes) noexcept;
  void merge(block& first, std::size_t end) noexcept;
  void make_unmapped(block& loose) noexcept;

  // A chunk counts at its present address; its old address is a leaving block.
  [[nodiscard]] const chunk_map& chunks() const noexcept { return chunks_; }
  /// A lower bound, more than half of the smallest chunk; address_bytes() without chunks.
  [[nodiscard]] std::size_t least_chunk() const noexcept;
  /// Gives the chunk a new creation number.
  void add_chunk(chunk_map::node_type made, std::size_t offset) noexcept;
  [[nodiscard]] chunk_map::node_type take_chunk(std::size_t offset) noexcept;
  void put_chunk(chunk_map::node_type moved, std::size_t offset) noexcept;

  /// For any thread at any time. The high is the highest of physical_bytes() and of note_high().
  [[nodiscard]] std::size_t physical_bytes() const noexcept {
    return physical_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t physical_high() const noexcept { return physical_high_; }
  void note_high(std::size_t held) noexcept { physical_high_ = std::max(physical_high_, held); }
  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_bytes_; }
  [[nodiscard]] std::size_t used_high() const noexcept { return used_high_; }
  void reset_highs() noexcept;
  /// Lowers used_high() by `bytes`, but not below its earlier value `before`, nor used_bytes().
  void lower_used_high(std::size_t before, std::size_t bytes) noexcept;

 private:
  using owner_list =
      boost::intrusive::list<block_owner, boost::intrusive::constant_time_size<false>>;
  struct offset_of {
    using type = std::size_t;
    const type& operator()(const block& one) const noexcept { return one.offset; }
  };
  // The low bits of offsets carry no information.
  struct mix {
    std::size_t operator()(std::size_t offset) const noexcept {
      return static_cast<std::size_t>((offset * 0x9E3779B97F4A7C15U) >> 32);
    }
  };
  using used_table =
      boost::intrusive::unordered_set<block, boost::intrusive::key_of_value<offset_of>,
                                      boost::intrusive::hash<mix>,
                                      boost::intrusive::power_2_buckets<true>>;

  void join_next(block& one) noexcept;  // the attributes are those of `one`
  void enter_tree(block& one) noexcept;
  void leave_tree(block& one) noexcept;
  void enter_unmapped(block& one) noexcept;
  void leave_unmapped(block& one) noexcept;
  [[nodiscard]] static bool is_free(const block* one) noexcept {
    return one != nullptr && one->state == block_state::free;
  }

  std::atomic<std::uintptr_t> base_;
  std::size_t address_bytes_;
  block_owner& idle_;
  std::deque<block> blocks_;
  block* spare_ = nullptr;  // linked by `next`
  std::size_t spare_count_ = 0;
  std::size_t growths_ = 0;
  block* front_;
  std::vector<used_table::bucket_type> buckets_;
  used_table used_;
  mutable block_tree unmapped_;
  mutable block_tree leaving_;
  std::size_t unmapped_bytes_ = 0;
  mutable owner_list owners_;
  // The later of two adjacent free blocks; also some that are alone by now.
  mutable block_list beside_others_;
  chunk_map chunks_;
  std::array<std::size_t, 65> chunks_by_width_{};  // how many chunks have sizes of so many bits
  std::uint64_t next_chunk_ = 0;
  std::atomic<std::size_t> physical_bytes_{0};
  std::size_t physical_high_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t used_high_ = 0;
};

template <typename Visit>
void block_index::for_each_stretch(std::size_t bytes, Visit visit) const {
  const auto is_alone = [](const block& one) {
    return !is_free(one.previous) && !is_free(one.next);
  };
  for (auto next = beside_others_.begin(); next != beside_others_.end();) {
    block& one = *next++;
    if (is_alone(one)) {
      one.block_list_hook::unlink();
      continue;
    }
    // Visit a stretch only from its first block that is in the list.
    block* first = &one;
    bool is_first = true;
    while (is_first && is_free(first->previous)) {
      first = first->previous;
      is_first = !first->block_list_hook::is_linked();
    }
    if (!is_first) continue;
    block* last = &one;
    while (is_free(last->next)) last = last->next;
    visit(*first, *last);
  }
  for (block_owner& owner : owners_) {
    const free_blocks& all = owner.free();
    for (block* at = all.at_least(bytes); at != nullptr; at = all.after(*at))
      if (is_alone(*at)) visit(*at, *at);
  }
}

}  // namespace hipvmm::mr::pool
