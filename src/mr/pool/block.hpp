// SPDX-License-Identifier: MIT
#pragma once

#include <boost/intrusive/set.hpp>
#include <boost/intrusive/unordered_set_hook.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hipvmm::mr::pool {

class block_owner;

enum class block_state : unsigned char {
  unmapped,  ///< addresses with nothing behind them
  free,      ///< memory in the tree of its owner
  used,      ///< memory of a caller, or of a thread's cache
  leaving,   ///< old address of a chunk that has moved, until its owner has passed its epoch
  busy,      ///< between two of the others: one thread works on it without the state lock
};

/// A range of the pool's addresses. Blocks lie one behind the other without gaps, each linked to
/// its neighbours; free ones are also in the tree of their owner, used ones in the table by offset.
struct block : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>>,
               boost::intrusive::unordered_set_base_hook<> {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  block* previous = nullptr;
  block* next = nullptr;
  /// Of a free block: the stream it was freed in. Of a used one: the stream it was allocated in.
  block_owner* owner = nullptr;
  /// Of a free block: when it was freed. Of a used one: when it was allocated. As its owner counts.
  std::uint64_t epoch = 0;
  block_state state = block_state::unmapped;

  [[nodiscard]] std::size_t end() const noexcept { return offset + bytes; }
};

using fit_key = std::pair<std::size_t, std::size_t>;

/// By size, then by address: the first that is not less than a size is the best fit.
struct block_fit {
  using type = fit_key;
  type operator()(const block& one) const noexcept { return {one.bytes, one.offset}; }
};

using free_tree = boost::intrusive::set<block, boost::intrusive::key_of_value<block_fit>>;

/// Whom a block belongs to: a stream, or nobody. Has the tree of its free blocks, which it does not
/// own. Guarded by the state lock.
class block_owner {
 public:
  /// `is_ordered`: whether what is freed later is in use no less long than what was freed before,
  /// so that one block of both is as good. Such an owner absorbs idle memory beside what it frees
  /// too.
  explicit block_owner(bool is_ordered) : is_ordered_{is_ordered} {}
  ~block_owner() { free_.clear(); }
  block_owner(const block_owner&) = delete;
  block_owner& operator=(const block_owner&) = delete;

  [[nodiscard]] free_tree& free() noexcept { return free_; }
  [[nodiscard]] bool is_ordered() const noexcept { return is_ordered_; }

 private:
  free_tree free_;
  bool is_ordered_;
};

}  // namespace hipvmm::mr::pool
