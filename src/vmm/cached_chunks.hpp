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
#include "core/owner_process.hpp"

namespace hipvmm::detail {

struct kept_position {
  bool is_reusable;
  handle_type shareable;
  std::size_t bytes;
  std::uint64_t creation_index;

  friend auto operator<=>(const kept_position&, const kept_position&) = default;
};

struct kept_chunk : boost::intrusive::set_base_hook<>, boost::intrusive::list_base_hook<> {
  kept_chunk(physical_chunk&& kept, bool may_reuse, bool while_pinned) noexcept
      : chunk{std::move(kept)}, is_reusable{may_reuse}, only_while_pinned{while_pinned} {}
  ~kept_chunk() { chunk.end(); }
  kept_chunk& operator=(kept_chunk&&) = delete;

  physical_chunk chunk;
  bool is_reusable;
  bool only_while_pinned;
  bool came_pinned = false;                     // in cached_chunks::pinned_
  std::chrono::steady_clock::time_point since;  // when it was recycled
};

/// Code that lowers a bound must then drop the excess.
struct kept_bounds {
  using duration = std::chrono::steady_clock::duration;

  std::atomic<std::size_t> bytes;
  std::atomic<duration> age;             // duration::max(): without limit
  std::atomic<bool> keeps_pinned{true};  // false once the process exits

  [[nodiscard]] std::size_t byte_limit() const noexcept {
    return age.load() > duration::zero() ? bytes.load() : 0;
  }
  [[nodiscard]] std::optional<duration> longest() const noexcept {
    const duration now = age.load();
    return now == duration::max() ? std::nullopt : std::optional{now};
  }
};

/// Chunks for the driver. Destroy it outside the lock.
class evicted_chunks {
 public:
  evicted_chunks& operator=(evicted_chunks&&) = delete;
  ~evicted_chunks() { chunks_.clear_and_dispose(std::default_delete<kept_chunk>{}); }
  void add(kept_chunk& kept) { chunks_.push_back(kept); }
  /// Leaves pinned ones to chunk_cache::shared().
  void leave_pinned() noexcept {
    for (kept_chunk& each : chunks_) const physical_chunk left{std::move(each.chunk)};
  }

 private:
  boost::intrusive::list<kept_chunk> chunks_;
};

/// The descriptors that kept chunks may use, if they cost any: half of the process's, shared
/// equally by the devices. If the program's files need more, a quarter stays free.
struct descriptor_budget {
  std::size_t devices;
  std::size_t limit = descriptor_limit();
  std::size_t share = limit / 2 / devices;

  /// A device's share if `others` are open beside its kept chunks.
  [[nodiscard]] std::size_t share_beside(std::size_t others) const noexcept {
    const std::size_t most_open = limit - limit / 4;
    return std::min(share, (most_open - std::min(most_open, others)) / devices);
  }
  // Counting costs a system call for each descriptor.
  [[nodiscard]] std::size_t first_count() const noexcept { return share / 4; }
  [[nodiscard]] std::size_t uncounted() const noexcept { return share / 16; }
};

/// The chunks of one device in a chunk_cache. No bound but that on descriptors drops a pinned
/// chunk, because a release would return nothing.
struct cached_chunks {
  cached_chunks(device_ref owner, cached_chunks* following) noexcept
      : device{owner}, next{following} {}

  /// A pinned one first; empty if none is kept.
  physical_chunk take(std::size_t bytes, handle_type shareable);
  /// Bytes that take() may return one by one, counted until `most`.
  [[nodiscard]] std::size_t bytes_to_take(std::size_t bytes, handle_type shareable,
                                          std::size_t most = static_cast<std::size_t>(-1)) const;
  /// The smallest of `bytes` to `most`, or else the largest below.
  physical_chunk take_pinned(std::size_t bytes, std::size_t most, handle_type shareable);
  enum class outcome {
    dropped,
    kept,
    kept_uncounted,  ///< over the known number of harmless chunks
  };
  outcome keep(std::unique_ptr<kept_chunk> kept, const kept_bounds& bounds,
               const descriptor_budget& budget, evicted_chunks& out);
  /// Drops chunks above the device's share if half of the process's descriptors are open.
  void drop_unless_harmless(const descriptor_budget& budget, evicted_chunks& out);
  /// All four return the bytes dropped. This one drops unpinned chunks, the oldest first.
  std::size_t drop_down_to(std::size_t bytes_to_keep, evicted_chunks& out);
  std::size_t drop_all(evicted_chunks& out);
  /// Chunks kept only while pinned, and those above the byte limit.
  std::size_t drop_unpinned(const kept_bounds& bounds, evicted_chunks& out);
  /// At most `most` chunks, recycled before `limit`, the oldest first.
  std::size_t drop_expired(std::chrono::steady_clock::time_point limit, std::size_t most,
                           evicted_chunks& out);
  /// The time at which the oldest chunk that is not pinned was recycled.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> oldest() const;
  void count(std::size_t chunk_cache_statistics::*what);

  const device_ref device;
  cached_chunks* const next;
  const owner_process process;
  alignas(64) mutable std::mutex mutex;  // guards all below; the rest never changes
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
    boost::intrusive::list<kept_chunk> ages;
  };
  [[nodiscard]] group& group_of(const kept_chunk& kept) noexcept {
    return kept.came_pinned ? pinned_ : free_;
  }
  kept_chunk& take_out(kept_chunk& kept);
  physical_chunk take_chunk(kept_chunk& kept);
  void drop(kept_chunk& kept, evicted_chunks& out);
  void drop_beyond(std::size_t bytes, evicted_chunks& out);

  group free_;
  group pinned_;              // apart, so that a trim does not pass them
  std::size_t share_ = 0;     // of the last budget
  std::size_t harmless_ = 0;  // chunks up to this number need no count
};

}  // namespace hipvmm::detail
