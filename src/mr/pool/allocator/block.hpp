// SPDX-License-Identifier: MIT
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/intrusive/unordered_set_hook.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hipvmm::mr::pool {

class block_owner;

/// Unlinks itself on destruction.
using block_list_hook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

enum class block_state : unsigned char {
  unmapped,  ///< addresses without memory
  free,      ///< memory in the tree of its owner
  used,      ///< memory of a caller, or of a thread's cache
  leaving,   ///< old address of a chunk that has moved, until its owner has passed its epoch
  busy,      ///< between two of the others: one thread works on it without the state lock
};

/// A range of the pool's addresses. Blocks are consecutive without gaps, each linked to its
/// neighbours. In addition:
///
/// - a free block is in the tree of its owner;
/// - a used block is in the table by offset;
/// - unmapped and leaving blocks are in trees of the index;
/// - of adjacent free blocks at least every other one is in a list.
struct block : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>>,
               boost::intrusive::unordered_set_base_hook<>,
               block_list_hook {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  block* previous = nullptr;
  block* next = nullptr;
  /// Of a free block: the stream it was freed in. Of a used one: the stream it was allocated in.
  block_owner* owner = nullptr;
  /// Epoch of the owner: of a free block, when it was freed; of a used one, when it was allocated.
  std::uint64_t epoch = 0;
  block_state state = block_state::unmapped;

  [[nodiscard]] std::size_t end() const noexcept { return offset + bytes; }
};

using fit_key = std::pair<std::size_t, std::size_t>;

/// Orders blocks by size, then by address: the first one not less than a size is the best fit.
struct block_fit {
  using type = fit_key;
  type operator()(const block& one) const noexcept { return {one.bytes, one.offset}; }
};

using free_tree = boost::intrusive::set<block, boost::intrusive::key_of_value<block_fit>>;
using block_list = boost::intrusive::list<block, boost::intrusive::constant_time_size<false>>;

/// The owner of blocks: a stream, or none. It contains the tree of its free blocks but does not own
/// the blocks. Guarded by the state lock.
class block_owner : public block_list_hook {
 public:
  /// `is_ordered`: whether memory freed later stays in use at least as long as memory freed before,
  /// so that the two can be merged into one block. Such an owner also absorbs idle memory next to
  /// the memory that it frees.
  explicit block_owner(bool is_ordered) : is_ordered_{is_ordered} {}
  ~block_owner() { free_.clear(); }
  block_owner(const block_owner&) = delete;
  block_owner& operator=(const block_owner&) = delete;

  [[nodiscard]] free_tree& free() noexcept { return free_; }
  /// Bytes of the free blocks.
  [[nodiscard]] std::size_t free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] bool is_ordered() const noexcept { return is_ordered_; }

 private:
  friend class block_index;
  free_tree free_;
  std::size_t free_bytes_ = 0;
  bool is_ordered_;
};

}  // namespace hipvmm::mr::pool
