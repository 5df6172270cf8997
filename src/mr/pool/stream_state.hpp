// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "mr/pool/backend.hpp"
#include "mr/pool/block.hpp"
#include "mr/pool/small_blocks.hpp"

namespace hipvmm::mr::pool {

/// What the pool knows of one stream: the memory given back in it, and how far it has come. Time in
/// a stream is counted in stamps: what is given back carries the present one, and each mark ends
/// one, so that a mark that has passed covers for all memory with its epoch or an older one. No
/// HIP call is made, and no event exists, before somebody else wants the memory. Guarded by the
/// pool's lock, but for the fences, which the lock of misses guards.
class stream_state {
 public:
  /// `thread` tells the per-thread default streams apart, which have one name; 0 for others.
  stream_state(stream_ref stream, std::size_t index, std::uint64_t thread = 0)
      : stream_{stream}, index_{index}, thread_{thread} {}
  ~stream_state() {
    free_.clear();
    for_each_cache([](thread_cache& cache) { delete &cache; });
  }
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] std::uint64_t thread() const noexcept { return thread_; }
  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  /// The state of what is idle: its memory was given back without a stream.
  [[nodiscard]] bool is_idle() const noexcept { return index_ == 0; }
  [[nodiscard]] free_tree& free() noexcept { return free_; }

  [[nodiscard]] std::uint64_t now() const noexcept { return now_; }
  /// Ends the present epoch and returns it.
  std::uint64_t advance_epoch() noexcept { return now_++; }
  /// The epoch of what is given back now.
  std::uint64_t epoch() noexcept { return newest_ = is_idle() ? 0 : now_; }
  /// The epoch of what was given back last; 0 when nothing was.
  [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }
  /// Whether something was given back that no mark covers for yet.
  [[nodiscard]] bool lacks_fence() const noexcept {
    return newest_ > (fences_.empty() ? passed_ : fences_.back().epoch);
  }

  /// Whether all that was given back until `epoch` is known to be over.
  [[nodiscard]] bool has_passed(std::uint64_t epoch) const noexcept { return passed_ >= epoch; }
  void note_passed(std::uint64_t epoch) noexcept { passed_ = std::max(passed_, epoch); }
  /// Whether it has passed more since what it had passed became idle.
  [[nodiscard]] bool has_news() const noexcept { return passed_ != collected_; }
  void note_collected() noexcept { collected_ = passed_; }

  /// Whether this stream's work comes behind all that was given back in `other` until `epoch`.
  [[nodiscard]] bool follows(const stream_state& other, std::uint64_t epoch) const noexcept {
    return other.index_ < followed_.size() && followed_[other.index_] >= epoch;
  }
  void add_dependency(const stream_state& other, std::uint64_t epoch) {
    if (followed_.size() <= other.index_) followed_.resize(other.index_ + 1);
    followed_[other.index_] = std::max(followed_[other.index_], epoch);
  }
  /// What `other` comes behind, this stream comes behind too, once it comes behind `other`.
  void merge_dependencies(const stream_state& other) {
    if (followed_.size() < other.followed_.size()) followed_.resize(other.followed_.size());
    for (std::size_t i = 0; i < other.followed_.size(); ++i)
      followed_[i] = std::max(followed_[i], other.followed_[i]);
  }

  struct recorded_fence {
    std::shared_ptr<const fence> mark;
    std::uint64_t epoch;
  };
  /// Oldest first.
  [[nodiscard]] std::deque<recorded_fence>& fences() noexcept { return fences_; }

  /// The cache of pieces that this thread uses, as do those whose number is alike. Thread-safe.
  /// Throws: std::bad_alloc.
  [[nodiscard]] thread_cache& cache_of(std::uint64_t thread) {
    std::atomic<thread_cache*>& place = caches_[thread % caches_.size()];
    thread_cache* present = place.load(std::memory_order_acquire);
    if (present != nullptr) return *present;
    auto made = std::make_unique<thread_cache>();
    if (!place.compare_exchange_strong(present, made.get())) return *present;
    return *made.release();
  }
  /// Thread-safe.
  template <typename Visit>
  void for_each_cache(Visit visit) {
    for (const auto& place : caches_) {
      if (thread_cache* const cache = place.load(std::memory_order_acquire)) visit(*cache);
    }
  }

  enum class stage {
    in_use,
    forgotten,  ///< the stream may be gone: no mark can be made in it any more
    vacant,     ///< nothing is left of it: another stream may have the state
  };
  [[nodiscard]] bool is_in_use() const noexcept { return stage_ == stage::in_use; }
  [[nodiscard]] bool is_vacant() const noexcept { return stage_ == stage::vacant; }
  [[nodiscard]] bool is_forgotten() const noexcept { return stage_ == stage::forgotten; }
  void forget() noexcept { stage_ = stage::forgotten; }
  void retire() noexcept { stage_ = stage::vacant; }
  /// Begins anew for another stream. Stamps go on: what others know of the old ones covers for
  /// none that come. Pre: is_vacant().
  void begin_anew(stream_ref stream, std::uint64_t thread) noexcept {
    stream_ = stream;
    thread_ = thread;
    followed_.clear();
    stage_ = stage::in_use;
  }

 private:
  stream_ref stream_;
  std::size_t index_;
  std::uint64_t thread_;
  free_tree free_;
  std::uint64_t now_ = 1;
  std::uint64_t newest_ = 0;
  std::uint64_t passed_ = 0;
  std::uint64_t collected_ = 0;
  std::vector<std::uint64_t> followed_;  // by index
  std::deque<recorded_fence> fences_;
  stage stage_ = stage::in_use;
  std::array<std::atomic<thread_cache*>, 16> caches_{};
};

}  // namespace hipvmm::mr::pool
