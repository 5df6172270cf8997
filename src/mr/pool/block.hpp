// SPDX-License-Identifier: MIT
#pragma once

#include <boost/intrusive/set.hpp>
#include <boost/intrusive/unordered_set_hook.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hipvmm::mr::pool {

class stream_state;

enum class block_state : unsigned char {
  unmapped,  ///< addresses with nothing behind them
  free,      ///< memory that its owner may hand out
  used,      ///< memory of a caller, or of a thread's cache
  busy,      ///< between two of the others: a thread works on it outside the lock
};

/// A stretch of the pool's addresses. Blocks lie one behind the other without gaps, each linked to
/// its neighbours; free ones are also in the tree of their owner, used ones in the table by
/// offset.
struct block : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>>,
               boost::intrusive::unordered_set_base_hook<> {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  block* previous = nullptr;
  block* next = nullptr;
  stream_state* owner = nullptr;  ///< whose stream it was given back in, or allocated in
  std::uint64_t epoch = 0;         ///< of a free block: when, as stream_state counts
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

}  // namespace hipvmm::mr::pool
