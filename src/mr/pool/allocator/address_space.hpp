// SPDX-License-Identifier: MIT
#pragma once

#include <boost/intrusive/unordered_set.hpp>
#include <cstddef>
#include <deque>
#include <vector>

#include "mr/pool/allocator/block.hpp"

namespace hipvmm::mr::pool {

/// The blocks into which a pool's addresses are divided, and a table of the used ones. Independent
/// of streams. Not thread-safe. It owns the blocks, but not the trees that contain them.
class address_space {
 public:
  /// Makes one unmapped block of `bytes` bytes.
  explicit address_space(std::size_t bytes);
  ~address_space() { table_.clear(); }
  address_space& operator=(address_space&&) = delete;

  /// Cuts that stay in reserve for each growth between these calls: one that waited without the
  /// pool's lock needs up to three to finish.
  static constexpr std::size_t kept_spare = 3;
  void begin_growth() noexcept { ++growths_; }
  void end_growth() noexcept { --growths_; }

  /// Makes the next `count` cuts and the next enlist() unable to fail. Throws: std::bad_alloc.
  void prepare_for(std::size_t count);
  /// Splits `whole` after its first `bytes` bytes and returns the rest, which has the same
  /// attributes but is in no tree. Pre: prepared for; `whole` is in no tree and not enlisted.
  block& cut(block& whole, std::size_t bytes) noexcept;
  /// Merges `one` with the next block; the attributes are those of `one`.
  void join_next(block& one) noexcept;

  /// Adds a used block to the table, so that find() returns it.
  void enlist(block& used) noexcept { table_.insert(used); }
  void strike(block& used) noexcept { table_.erase(table_.iterator_to(used)); }
  /// The used block that begins at `offset`; nullptr when none does.
  [[nodiscard]] block* find(std::size_t offset) noexcept;

  /// The block at the lowest address.
  [[nodiscard]] block& front() const noexcept { return *front_; }
  [[nodiscard]] std::size_t used_blocks() const noexcept { return table_.size(); }
  [[nodiscard]] std::size_t blocks() const noexcept { return nodes_.size() - spare_count_; }

 private:
  struct offset_of {
    using type = std::size_t;
    const type& operator()(const block& one) const noexcept { return one.offset; }
  };
  // Offsets are multiples of a few hundred bytes up to many megabytes: their low bits carry no
  // information.
  struct mix {
    std::size_t operator()(std::size_t offset) const noexcept {
      return static_cast<std::size_t>((offset * 0x9E3779B97F4A7C15U) >> 32);
    }
  };
  using table = boost::intrusive::unordered_set<block, boost::intrusive::key_of_value<offset_of>,
                                                boost::intrusive::hash<mix>,
                                                boost::intrusive::power_2_buckets<true>>;

  [[nodiscard]] block& take_spare() noexcept;

  std::deque<block> nodes_;
  block* spare_ = nullptr;  // linked by `next`
  std::size_t spare_count_ = 0;
  std::size_t growths_ = 0;
  block* front_ = nullptr;
  std::vector<table::bucket_type> buckets_;
  table table_;
};

}  // namespace hipvmm::mr::pool
