// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <chrono>
#include <compare>  // IWYU pragma: keep: the result of <=>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <hipvmm/vmm/chunk_cache_statistics.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/descriptors.hpp"

namespace hipvmm::detail {

struct kept_position {
  bool is_reusable;
  handle_type shareable;
  std::size_t bytes;
  std::uint64_t creation_index;

  friend auto operator<=>(const kept_position&, const kept_position&) = default;
};

struct kept_chunk : boost::intrusive::set_base_hook<>, boost::intrusive::list_base_hook<> {
  /// Whether take() may return it, and whether it is kept only while addresses pin its memory.
  kept_chunk(physical_chunk&& kept, bool may_reuse, bool while_pinned) noexcept
      : chunk{std::move(kept)}, is_reusable{may_reuse}, only_while_pinned{while_pinned} {}
  ~kept_chunk() { chunk.end(); }
  kept_chunk& operator=(kept_chunk&&) = delete;

  physical_chunk chunk;
  bool is_reusable;
  bool only_while_pinned;
  bool came_pinned = false;  // in cached_chunks::pinned_, until drop_unpinned() moves it
  std::chrono::steady_clock::time_point since;  // when it was recycled
};

/// Code that lowers a bound must then drop the excess.
struct kept_bounds {
  using duration = std::chrono::steady_clock::duration;

  std::atomic<std::size_t> bytes;
  std::atomic<duration> age;             // duration::max(): without limit
  std::atomic<bool> keeps_pinned{true};  // not once the process exits

  [[nodiscard]] std::size_t byte_limit() const noexcept {
    return age.load() > duration::zero() ? bytes.load() : 0;
  }
  [[nodiscard]] std::optional<duration> longest() const noexcept {
    const duration now = age.load();
    return now == duration::max() ? std::nullopt : std::optional{now};
  }
};

/// Chunks for the driver. The destructor releases them, and must run outside the lock.
class evicted_chunks {
 public:
  evicted_chunks& operator=(evicted_chunks&&) = delete;
  ~evicted_chunks() { chunks_.clear_and_dispose(std::default_delete<kept_chunk>{}); }
  void add(kept_chunk& kept) { chunks_.push_back(kept); }
  /// Leaves those with memory that addresses pin to chunk_cache::shared().
  void leave_pinned() noexcept {
    for (kept_chunk& each : chunks_) const physical_chunk left{std::move(each.chunk)};
  }

 private:
  boost::intrusive::list<kept_chunk> chunks_;
};

/// The descriptors that kept chunks may use, if they cost any: half of the process's, shared
/// equally by the devices. The rest is for chunks in use and for the program's files, which fail
/// less gracefully. If those need more, kept chunks leave about a quarter free.
struct descriptor_budget {
  std::size_t devices;
  std::size_t limit = descriptor_limit();
  std::size_t share = limit / 2 / devices;

  /// The share of one device if `others` descriptors are open that its kept chunks do not cost.
  [[nodiscard]] std::size_t share_beside(std::size_t others) const noexcept {
    const std::size_t most_open = limit - limit / 4;
    return std::min(share, (most_open - std::min(most_open, others)) / devices);
  }
  // Counting costs a system call for each descriptor: few chunks are kept without counting.
  [[nodiscard]] std::size_t first_count() const noexcept { return share / 4; }
  [[nodiscard]] std::size_t uncounted() const noexcept { return share / 16; }
};

/// The chunks of one device in a chunk_cache. No bound but that on descriptors drops a pinned
/// chunk, because a release would return nothing. The mutex guards the members after it. The
/// members before it never change; they are on another cache line, so that threads of other devices
/// read them without waiting for the lock.
struct cached_chunks {
  cached_chunks(device_ref owner, cached_chunks* following) noexcept
      : device{owner}, next{following} {}

  /// Takes out a chunk of these properties, a pinned one first; an empty one if none is kept.
  physical_chunk take(std::size_t bytes, handle_type shareable);
  /// Bytes of the chunks that take() may return one by one, counted until they are `most`.
  [[nodiscard]] std::size_t bytes_to_take(std::size_t bytes, handle_type shareable,
                                          std::size_t most = static_cast<std::size_t>(-1)) const;
  /// Takes out a pinned chunk: the smallest of `bytes` to `most`, or else the largest below.
  physical_chunk take_pinned(std::size_t bytes, std::size_t most, handle_type shareable);
  enum class outcome {
    dropped,
    kept,
    kept_uncounted,  ///< chunks held now may cost more descriptors than the budget has
  };
  outcome keep(std::unique_ptr<kept_chunk> kept, const kept_bounds& bounds,
               const descriptor_budget& budget, evicted_chunks& out);
  /// Counts the process's descriptors. Drops chunks above the device's share if half are open.
  void drop_unless_harmless(const descriptor_budget& budget, evicted_chunks& out);
  /// These return the bytes dropped. This one drops unpinned chunks, those kept longest first.
  std::size_t drop_down_to(std::size_t bytes_to_keep, evicted_chunks& out);
  std::size_t drop_all(evicted_chunks& out);
  /// Drops chunks that were kept only while pinned, and those above the byte limit.
  std::size_t drop_unpinned(const kept_bounds& bounds, evicted_chunks& out);
  /// Drops at most `most` chunks that were recycled before `limit`, the oldest first.
  std::size_t drop_expired(std::chrono::steady_clock::time_point limit, std::size_t most,
                           evicted_chunks& out);
  /// When the chunk kept longest was recycled, of those not pinned; empty when there is none.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> oldest() const;
  void count(std::size_t chunk_cache_statistics::*what);

  const device_ref device;
  cached_chunks* const next;
  alignas(64) mutable std::mutex mutex;  // a cache line of its own
  chunk_cache_statistics statistics{};

 private:
  struct position_of {
    using type = kept_position;
    kept_position operator()(const kept_chunk& kept) const {
      const physical_chunk& chunk = kept.chunk;
      return {kept.is_reusable, chunk.shareable(), chunk.bytes(), chunk.creation_index()};
    }
  };
  struct group {
    boost::intrusive::set<kept_chunk, boost::intrusive::key_of_value<position_of>> chunks;
    boost::intrusive::list<kept_chunk> ages;  // the first recycled first
  };
  [[nodiscard]] group& group_of(const kept_chunk& kept) noexcept {
    return kept.came_pinned ? pinned_ : free_;
  }
  kept_chunk& take_out(kept_chunk& kept);
  physical_chunk take_chunk(kept_chunk& kept);
  void drop(kept_chunk& kept, evicted_chunks& out);
  void drop_beyond(std::size_t bytes, evicted_chunks& out);

  group free_;
  group pinned_;              // by addresses; apart, because a trim passes none of them
  std::size_t share_ = 0;     // of the budget, when it was last computed
  std::size_t harmless_ = 0;  // this many chunks are known not to use it up
};

}  // namespace hipvmm::detail
