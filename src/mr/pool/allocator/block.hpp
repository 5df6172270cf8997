// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/intrusive/unordered_set_hook.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace hipvmm::mr::pool {

class block_owner;

using block_list_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

enum class block_state : unsigned char {
  unmapped,  ///< addresses without memory
  free,      ///< memory in the tree of its owner
  used,      ///< memory of a caller, or of a thread's cache
  leaving,   ///< old address of a chunk that has moved, until block::owner has passed block::epoch
  busy,      ///< between two of the others: one thread works on it without the state lock
};

/// A range of the pool's addresses, linked to its neighbours without gaps. A free block is in the
/// tree of its owner, a used one in the table by offset, an unmapped or leaving one in a tree of
/// the index. If two free blocks are adjacent, the one freed later is also in a list.
struct block : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>>,
               boost::intrusive::unordered_set_base_hook<>,
               block_list_hook {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  block* previous = nullptr;
  block* next = nullptr;
  /// The stream that freed a free block, or allocated a used one; and that stream's epoch then.
  block_owner* owner = nullptr;
  std::uint64_t epoch = 0;
  block_state state = block_state::unmapped;

  [[nodiscard]] std::size_t end() const noexcept { return offset + bytes; }
};

using fit_key = std::pair<std::size_t, std::size_t>;

struct block_fit {
  using type = fit_key;
  type operator()(const block& one) const noexcept { return {one.bytes, one.offset}; }
};

using block_tree = boost::intrusive::multiset<block, boost::intrusive::key_of_value<block_fit>,
                                              boost::intrusive::constant_time_size<false>>;
using block_list = boost::intrusive::list<block, boost::intrusive::constant_time_size<false>>;

/// Free blocks by size, then by address, in 32 trees for each doubling of sizes. Does not own them.
class free_blocks {
 public:
  [[nodiscard]] bool empty() const noexcept { return filled_words_ == 0; }
  [[nodiscard]] block* first() const noexcept { return first_from(0); }
  [[nodiscard]] block* after(block& one) const noexcept {
    const std::size_t range = range_of(one.bytes);
    block_tree& tree = trees_[range];
    const auto next = std::next(tree.iterator_to(one));
    return next != tree.end() ? &*next : first_from(range + 1);
  }
  /// Pre: not empty.
  [[nodiscard]] block& back() const noexcept {
    const std::size_t word = highest_bit(filled_words_);
    return *trees_[64 * word + highest_bit(filled_[word])].rbegin();
  }
  /// The smallest block of at least `bytes` bytes; of several, the one at the lowest address.
  [[nodiscard]] block* at_least(std::size_t bytes) const noexcept {
    const std::size_t range = range_of(bytes);
    block_tree& tree = trees_[range];
    const auto found = tree.lower_bound(fit_key{bytes, 0});
    return found != tree.end() ? &*found : first_from(range + 1);
  }

  /// In order, faster than by after(). `visit` inserts and erases nothing.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < filled_.size(); ++i)
      for (std::uint64_t left = filled_[i]; left != 0; left &= left - 1)
        for (block& one : trees_[64 * i + static_cast<std::size_t>(std::countr_zero(left))])
          visit(one);
  }

  void insert(block& one) noexcept {
    const std::size_t range = range_of(one.bytes);
    trees_[range].insert(one);
    filled_[range / 64] |= std::uint64_t{1} << range % 64;
    filled_words_ |= std::uint64_t{1} << range / 64;
  }
  void erase(block& one) noexcept {
    const std::size_t range = range_of(one.bytes);
    block_tree& tree = trees_[range];
    tree.erase(tree.iterator_to(one));
    // The processor could not predict branches.
    std::uint64_t& word = filled_[range / 64];
    word &= ~(std::uint64_t{tree.empty()} << range % 64);
    filled_words_ &= ~(std::uint64_t{word == 0} << range / 64);
  }
  void clear() noexcept {
    for (block_tree& tree : trees_) tree.clear();
    filled_ = {};
    filled_words_ = 0;
  }

 private:
  static constexpr std::size_t range_count = 768;
  static_assert(range_count % 64 == 0 && range_count / 64 < 64);

  /// The last range also has all larger blocks.
  [[nodiscard]] static std::size_t range_of(std::size_t bytes) noexcept {
    constexpr std::size_t smallest = 256;
    constexpr unsigned bits = 5;
    const std::size_t units = bytes / smallest;
    const auto width = static_cast<unsigned>(std::bit_width(units));
    if (width <= bits) return units;
    const unsigned doublings = width - bits;
    const std::size_t range = (std::size_t{doublings - 1} << bits) + (units >> (doublings - 1));
    return range < range_count ? range : range_count - 1;
  }
  [[nodiscard]] static std::size_t highest_bit(std::uint64_t word) noexcept {
    return static_cast<std::size_t>(std::bit_width(word)) - 1;
  }
  [[nodiscard]] block* first_from(std::size_t range) const noexcept {
    if (range >= range_count) return nullptr;
    std::size_t word = range / 64;
    std::uint64_t left = filled_[word] >> range % 64 << range % 64;
    if (left == 0) {
      const std::uint64_t above = filled_words_ >> (word + 1) << (word + 1);
      if (above == 0) return nullptr;
      word = static_cast<std::size_t>(std::countr_zero(above));
      left = filled_[word];
    }
    return &*trees_[64 * word + static_cast<std::size_t>(std::countr_zero(left))].begin();
  }

  mutable std::array<block_tree, range_count> trees_;
  std::array<std::uint64_t, range_count / 64> filled_{};  // a bit for each tree with blocks
  std::uint64_t filled_words_ = 0;                        // for each word of `filled_`
};

/// A stream, or none, with the tree of its free blocks. Guarded by the state lock.
class block_owner : public block_list_hook {
 public:
  /// `is_ordered`: memory freed later stays in use at least as long as memory freed before, so the
  /// two may merge. Such an owner also absorbs idle memory next to memory that it frees.
  explicit block_owner(bool is_ordered) : is_ordered_{is_ordered} {}
  ~block_owner() { free_.clear(); }
  block_owner& operator=(block_owner&&) = delete;

  [[nodiscard]] free_blocks& free() noexcept { return free_; }
  [[nodiscard]] std::size_t free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] bool is_ordered() const noexcept { return is_ordered_; }

 private:
  friend class block_index;
  free_blocks free_;
  std::size_t free_bytes_ = 0;
  bool is_ordered_;
};

}  // namespace hipvmm::mr::pool
