// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "mr/pool/allocator/block.hpp"
#include "mr/pool/allocator/newest_fence.hpp"
#include "mr/pool/allocator/small_blocks.hpp"
#include "mr/pool/backend/backend.hpp"

namespace hipvmm::mr::pool {

/// The pool's state of one stream: the memory freed in it, and how far the stream has come.
/// - Freed memory carries the current epoch. Each fence ends one. When the fence is done, all
///   memory of that epoch and of older ones has passed.
/// - No event exists before a miss, a trim, a sleep or an end needs a fence, except in per-thread
///   default streams and streams that may vanish (newest_fence.hpp).
/// - The slow-path lock guards the fences, the state lock all but the newest fence, caches and
///   captures, which are thread-safe.
class stream_state : public block_owner {
 public:
  enum class kind {
    stream,
    idle,        ///< memory that nothing uses: its epoch is 0, which has passed
    all_streams  ///< memory freed without a stream: work of any stream may use it
  };

  /// `thread` distinguishes the per-thread default streams, which share one handle; 0 for others.
  /// `id` distinguishes the streams that use this state one after the other.
  stream_state(kind what, stream_ref stream, std::size_t index, std::size_t id,
               std::uint64_t thread = 0, bool may_vanish = false)
      : block_owner{what == kind::stream},
        kind_{what},
        stream_{stream},
        index_{index},
        id_{id},
        thread_{thread},
        may_vanish_{may_vanish} {}
  ~stream_state() {
    for_each_cache([](thread_cache& cache) { delete &cache; });
  }

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] std::uint64_t thread() const noexcept { return thread_; }
  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  [[nodiscard]] std::size_t id() const noexcept { return id_; }
  [[nodiscard]] bool is_idle() const noexcept { return kind_ == kind::idle; }
  [[nodiscard]] bool is_all_streams() const noexcept { return kind_ == kind::all_streams; }
  [[nodiscard]] bool is_stream() const noexcept { return kind_ == kind::stream; }

  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  std::uint64_t advance_epoch() noexcept { return epoch_++; }
  /// Returns the epoch of a free. `has_fence`: the newest fence covers it.
  std::uint64_t note_free(bool has_fence) noexcept {
    if (!has_fence && may_vanish_) newest_fence_.note_uncovered_free();
    return newest_ = is_idle() ? 0 : epoch_;
  }
  /// Epoch of the newest free; 0 if there was none.
  [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }
  [[nodiscard]] bool lacks_fence() const noexcept {
    return newest_ > passed_ && (fences_.empty() || newest_ > fences_.back().epoch);
  }

  /// Whether nothing uses memory freed up to `epoch` any more.
  [[nodiscard]] bool has_passed(std::uint64_t epoch) const noexcept { return passed_ >= epoch; }
  void note_passed(std::uint64_t epoch) noexcept { passed_ = std::max(passed_, epoch); }
  [[nodiscard]] bool has_news() const noexcept { return passed_ != collected_; }
  void note_collected() noexcept { collected_ = passed_; }

  /// Whether this stream's work is ordered after all memory freed in `other` up to `epoch`.
  [[nodiscard]] bool depends_on(const stream_state& other, std::uint64_t epoch) const noexcept {
    return other.index_ < dependencies_.size() && dependencies_[other.index_] >= epoch;
  }
  void add_dependency(const stream_state& other, std::uint64_t epoch) {
    if (dependencies_.size() <= other.index_) dependencies_.resize(other.index_ + 1);
    dependencies_[other.index_] = std::max(dependencies_[other.index_], epoch);
  }
  struct recorded_fence {
    std::shared_ptr<const fence> point;
    std::uint64_t epoch;
  };
  /// Oldest first.
  [[nodiscard]] std::deque<recorded_fence>& fences() noexcept { return fences_; }

  /// Threads share a cache if their numbers have the same remainder. Throws: std::bad_alloc.
  [[nodiscard]] thread_cache& cache_of(std::uint64_t thread) {
    const std::size_t index = thread % caches_.size();
    std::atomic<thread_cache*>& place = caches_[index];
    thread_cache* present = place.load(std::memory_order_acquire);
    if (present != nullptr) return *present;
    auto made = std::make_unique<thread_cache>();
    // The bit comes first, so that a thread that empties caches misses none.
    with_cache_ |= std::uint32_t{1} << index;
    if (!place.compare_exchange_strong(present, made.get())) return *present;
    return *made.release();
  }
  template <typename Visit>
  void for_each_cache(Visit visit) {
    for (std::uint32_t left = with_cache_; left != 0; left &= left - 1) {
      const auto index = static_cast<std::size_t>(std::countr_zero(left));
      if (thread_cache* const cache = caches_[index].load(std::memory_order_acquire)) visit(*cache);
    }
  }

  /// Whether a capture in which the stream got memory may go on. Only then do frees ask HIP.
  [[nodiscard]] bool may_be_captured() const noexcept {
    return captures() != ended_captures_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t captures() const noexcept {
    return captures_.load(std::memory_order_relaxed);
  }
  void note_capture() noexcept { captures_.fetch_add(1, std::memory_order_relaxed); }
  /// Captures up to `count` have ended, later ones have not.
  void end_captures(std::uint32_t count) noexcept {
    ended_captures_.store(count, std::memory_order_relaxed);
  }
  /// Constant while the state is in use.
  [[nodiscard]] bool may_vanish() const noexcept { return may_vanish_; }
  [[nodiscard]] pool::newest_fence& newest_fence() noexcept { return newest_fence_; }
  [[nodiscard]] bool free_asks_hip() const noexcept {
    return may_be_captured() || newest_fence_.is_made_by_frees();
  }

  // A state is in use, then forgotten, then vacant, then in use by another stream.
  enum class stage {
    in_use,
    forgotten,  ///< the stream may no longer exist: no fence can be made in it
    vacant,     ///< nothing of the stream is left in it
  };
  [[nodiscard]] bool is_in_use() const noexcept { return stage_ == stage::in_use; }
  [[nodiscard]] bool is_vacant() const noexcept { return stage_ == stage::vacant; }
  [[nodiscard]] bool is_forgotten() const noexcept { return stage_ == stage::forgotten; }
  void forget() noexcept { stage_ = stage::forgotten; }
  void vacate() noexcept { stage_ = stage::vacant; }
  /// Epochs continue, so that no dependency on old ones covers the new stream.
  void begin_anew(stream_ref stream, std::size_t id, std::uint64_t thread,
                  bool may_vanish) noexcept {
    stream_ = stream;
    id_ = id;
    thread_ = thread;
    may_vanish_ = may_vanish;
    newest_fence_.begin_anew();
    dependencies_.clear();
    end_captures(captures());
    first_epoch_ = ++epoch_;
    stage_ = stage::in_use;
  }
  [[nodiscard]] bool is_of_this_stream(std::uint64_t epoch) const noexcept {
    return epoch >= first_epoch_;
  }

 private:
  kind kind_;
  stream_ref stream_;
  std::size_t index_;
  std::size_t id_;
  std::uint64_t thread_;
  bool may_vanish_;
  std::atomic<std::uint32_t> captures_{0};
  std::atomic<std::uint32_t> ended_captures_{0};
  pool::newest_fence newest_fence_;
  std::uint64_t epoch_ = 1;
  std::uint64_t first_epoch_ = 0;
  std::uint64_t newest_ = 0;
  std::uint64_t passed_ = 0;
  std::uint64_t collected_ = 0;
  std::vector<std::uint64_t> dependencies_;  // by index of the state
  std::deque<recorded_fence> fences_;
  stage stage_ = stage::in_use;
  std::array<std::atomic<thread_cache*>, 16> caches_{};
  std::atomic<std::uint32_t> with_cache_{0};  // a bit for each that may exist
};

/// Pre: the block has an owner, as all free and used blocks have.
[[nodiscard]] inline stream_state& owner_of(const block& one) noexcept {
  return static_cast<stream_state&>(*one.owner);
}

}  // namespace hipvmm::mr::pool
