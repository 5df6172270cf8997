// SPDX-License-Identifier: MIT
#pragma once

#include <deque>

#include "mr/pool/allocator/block_allocator.hpp"
#include "support/test.hpp"

// Memory and streams that tests hold in their own hands: streams go on when told to, and every use
// of a piece of memory must be ordered after the one before.
namespace hipvmm::test {

/// A point in a stream: its number and how much has been submitted to it.
struct stream_point {
  std::size_t stream;
  std::uint64_t position;
};

class hand_driven_streams final : public mr::pool::fence_source {
 public:
  explicit hand_driven_streams(std::size_t count) : streams_(count) {
    for (one_stream& each : streams_) each.behind.resize(count);
  }

  /// The pool's name of stream number `index`.
  [[nodiscard]] static stream_ref name(std::size_t index) {
    return stream_ref{reinterpret_cast<ihipStream_t*>(index + 16)};
  }
  [[nodiscard]] static std::size_t index_of(stream_ref stream) {
    return reinterpret_cast<std::size_t>(stream.get()) - 16;
  }

  /// Submits some work and returns its point.
  stream_point submit(std::size_t stream) { return {stream, ++streams_[stream].submitted}; }
  /// Lets `stream` come as far as `position`, with all that it waits for.
  void advance(std::size_t stream, std::uint64_t position) {
    one_stream& it = streams_[stream];
    REQUIRE(position <= it.submitted);
    while (!it.waits.empty() && it.waits.front().from < position) {
      const auto wait = it.waits.front();
      it.waits.pop_front();
      advance(wait.what.stream, wait.what.position);
    }
    it.done = std::max(it.done, position);
  }
  void finish(std::size_t stream) { advance(stream, streams_[stream].submitted); }
  void finish_all() {
    for (std::size_t i = 0; i < streams_.size(); ++i) finish(i);
  }
  [[nodiscard]] std::uint64_t submitted(std::size_t stream) const {
    return streams_[stream].submitted;
  }
  [[nodiscard]] bool is_done(stream_point point) const {
    return streams_[point.stream].done >= point.position;
  }
  /// Whether work submitted to `later` from now on is ordered after `point`.
  [[nodiscard]] bool is_behind(std::size_t later, stream_point point) const {
    return later == point.stream || is_done(point) ||
           streams_[later].behind[point.stream] >= point.position;
  }
  /// Work submitted to `waiter` from now on is ordered after all that `other` has now.
  void wait(std::size_t waiter, std::size_t other) {
    const stream_point now = submit(other);
    make_stream_wait(waiter, now, streams_[other].behind);
  }

  [[nodiscard]] std::shared_ptr<const mr::pool::fence> fence_for(stream_ref stream) override {
    const std::size_t index = index_of(stream);
    REQUIRE(index < streams_.size());
    if (streams_[index].captured) return nullptr;
    ++marks;
    when_marked();
    const std::thread::id owner = streams_[index].thread;
    if (owner != std::thread::id{} && owner != std::this_thread::get_id()) ++foreign_marks;
    // A mark is work itself: it also follows the waits of the stream.
    const bool is_idle =
        streams_[index].done == streams_[index].submitted && streams_[index].waits.empty();
    const stream_point now = submit(index);
    if (is_idle) finish(index);
    return std::make_shared<point_fence>(*this, now, streams_[index].behind);
  }

  [[nodiscard]] std::shared_ptr<const mr::pool::fence> fence_for_all() override {
    ++marks;
    std::vector<stream_point> points;
    for (std::size_t i = 0; i < streams_.size(); ++i) points.push_back({i, streams_[i].submitted});
    return std::make_shared<all_points_fence>(*this, std::move(points));
  }
  void synchronize() override {
    ++host_waits;
    finish_all();
  }

  /// The name of this stream means another one in all other threads.
  void set_thread_of(std::size_t stream, std::thread::id thread) {
    streams_[stream].thread = thread;
  }

  /// While it is captured nothing can be marked in it, nor can it be made to wait.
  void set_captured(std::size_t stream, bool captured) { streams_[stream].captured = captured; }
  [[nodiscard]] bool is_captured(std::size_t stream) const { return streams_[stream].captured; }

  bool all_may_vanish = false;
  [[nodiscard]] bool may_vanish(stream_ref) const override { return all_may_vanish; }

  /// Called when the host waits for a mark.
  std::function<void()> when_waited = [] {};
  std::function<void()> when_marked = [] {};
  std::uint64_t marks = 0;
  std::uint64_t foreign_marks = 0;  ///< made by a thread whose stream it is not
  std::uint64_t waits = 0;
  std::uint64_t host_waits = 0;
  /// All streams come to their ends right after the next mark was asked.
  bool finishes_after_poll = false;

 private:
  using clock = std::vector<std::uint64_t>;
  struct pending_wait {
    std::uint64_t from;
    stream_point what;
  };
  struct one_stream {
    std::uint64_t submitted = 0;
    std::uint64_t done = 0;
    clock behind;
    std::deque<pending_wait> waits;
    std::thread::id thread;
    bool captured = false;
  };
  struct point_fence final : mr::pool::fence {
    point_fence(hand_driven_streams& all, stream_point at, clock before)
        : streams{all}, point{at}, behind{std::move(before)} {}
    [[nodiscard]] bool is_done() const override {
      const bool done = streams.is_done(point);
      if (std::exchange(streams.finishes_after_poll, false)) streams.finish_all();
      return done;
    }
    void synchronize() const override {
      ++streams.host_waits;
      streams.advance(point.stream, point.position);
      streams.when_waited();
    }
    [[nodiscard]] bool make_stream_wait(stream_ref waiter) const override {
      if (streams.streams_[index_of(waiter)].captured) return false;
      ++streams.waits;
      streams.make_stream_wait(index_of(waiter), point, behind);
      return true;
    }
    hand_driven_streams& streams;
    stream_point point;
    clock behind;
  };

  struct all_points_fence final : mr::pool::fence {
    all_points_fence(hand_driven_streams& all, std::vector<stream_point> at)
        : streams{all}, points{std::move(at)} {}
    [[nodiscard]] bool is_done() const override {
      return std::all_of(points.begin(), points.end(),
                         [this](const stream_point& each) { return streams.is_done(each); });
    }
    void synchronize() const override {
      ++streams.host_waits;
      for (const stream_point& each : points) streams.advance(each.stream, each.position);
      streams.when_waited();
    }
    [[nodiscard]] bool orders_streams() const override { return false; }
    [[nodiscard]] bool make_stream_wait(stream_ref) const override { return false; }
    hand_driven_streams& streams;
    std::vector<stream_point> points;
  };

  void make_stream_wait(std::size_t waiter, stream_point what, const clock& behind) {
    one_stream& it = streams_[waiter];
    it.waits.push_back({it.submitted, what});
    for (std::size_t i = 0; i < behind.size(); ++i)
      it.behind[i] = std::max(it.behind[i], behind[i]);
    it.behind[what.stream] = std::max(it.behind[what.stream], what.position);
  }

  std::vector<one_stream> streams_;
};

/// Chunks that remember the last use of each piece of them, and its address.
class watched_memory final : public mr::pool::memory_backend {
 public:
  static constexpr std::size_t piece = 64 * KiB;

  explicit watched_memory(hand_driven_streams& streams, bool aliases = false,
                          std::size_t address_bytes = 64 * GiB)
      : memory_backend{{.address_bytes = address_bytes,
                        .granularity = 2 * MiB,
                        .has_aliases = aliases}},
        streams_{streams} {}

  [[nodiscard]] std::unique_ptr<mr::pool::pending_release> replace_addresses() override {
    may_fail();
    return std::make_unique<left_addresses>(*this, std::exchange(mapped_, {}));
  }

  void create(std::size_t offset, std::size_t bytes, std::size_t chunk_bytes) override {
    may_fail();
    require_free(offset, bytes);
    std::size_t at = offset;
    try {
      for (; at < offset + bytes; at += chunk_bytes)
        create_one(at, std::min(chunk_bytes, offset + bytes - at));
    } catch (...) {
      for (std::size_t made = offset; made < at; made += chunk_bytes) {
        held_ -= chunk_bytes;
        mapped_.erase(made);
      }
      throw;
    }
  }
  void create_one(std::size_t offset, std::size_t bytes) {
    const auto kept = std::find_if(set_aside_.begin(), set_aside_.end(), [bytes](const auto& one) {
      return one->size() == bytes / piece;
    });
    if (kept != set_aside_.end()) {
      mapped_.emplace(offset, mapping_of{*kept, {}});
      set_aside_.erase(kept);
      return;
    }
    if (held_ + bytes > capacity)
      throw out_of_memory{exhausted::device_memory, 0, bytes, capacity - held_, ""};
    mapped_.emplace(offset, mapping_of{std::make_shared<chunk>(bytes / piece), {}});
    held_ += bytes;
    ++created;
  }
  void set_aside(std::size_t offset, std::size_t bytes) override {
    may_fail();
    const std::size_t end = offset + bytes;
    for (auto at = mapped_.find(offset); offset != end; at = mapped_.erase(at)) {
      REQUIRE(at != mapped_.end());
      REQUIRE(at->first == offset);
      require_unused(*at->second.memory);
      REQUIRE_MESSAGE(at->second.memory.use_count() == 1, "memory is taken that has two addresses");
      set_aside_.push_back(at->second.memory);
      offset += at->second.memory->size() * piece;
    }
  }
  void release_set_aside() noexcept override {
    for (const auto& each : set_aside_) held_ -= each->size() * piece;
    set_aside_.clear();
  }
  [[nodiscard]] std::unique_ptr<mr::pool::pending_release> detach(std::size_t offset,
                                                                  std::size_t bytes) override {
    may_fail();
    const auto at = require_mapped(offset, bytes);
    require_unused(*at->second.memory);
    return std::make_unique<detached_memory>(*this, offset, bytes);
  }
  void alias(const std::vector<std::size_t>& from, std::size_t to) override {
    may_fail();
    REQUIRE(traits.has_aliases);
    for (const std::size_t each : from) {
      const auto at = mapped_.find(each);
      REQUIRE(at != mapped_.end());
      const std::size_t bytes = at->second.memory->size() * piece;
      require_free(to, bytes);
      mapped_.emplace(to, mapping_of{at->second.memory, {}});
      to += bytes;
    }
  }
  [[nodiscard]] std::unique_ptr<mr::pool::pending_release> detach_old_mapping(
      std::size_t from) override {
    const auto at = mapped_.find(from);
    REQUIRE(at != mapped_.end());
    // Work in flight may go on through another address, not through this one.
    for (const stream_point& use : at->second.uses) REQUIRE(streams_.is_done(use));
    return std::make_unique<detached_memory>(*this, from, 0);
  }

  /// Work of `stream` uses the memory: it follows the use before, by any stream.
  void use(std::size_t stream, std::size_t offset, std::size_t bytes) {
    const stream_point now = streams_.submit(stream);
    for_each_piece(offset, bytes, [&](mapping_of& map, stream_point& last) {
      REQUIRE_MESSAGE(streams_.is_behind(stream, last), "memory is used out of order");
      last = now;
      map.uses.push_back(now);
    });
  }
  /// The host may use the memory now.
  void require_idle(std::size_t offset, std::size_t bytes) {
    for_each_piece(offset, bytes, [&](mapping_of&, const stream_point& last) {
      REQUIRE_MESSAGE(streams_.is_done(last), "memory for all streams is in use");
    });
  }
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t mappings() const { return mapped_.size(); }

  std::size_t capacity = 16 * GiB;
  std::uint64_t created = 0;
  /// The call, from 1, that fails next; 0: none.
  std::uint64_t fails_at = 0;
  /// Called when the device has a chunk back.
  std::function<void()> when_released = [] {};
  /// The next unmap of detached chunks fails.
  bool keeps_mappings = false;

 private:
  struct detached_memory final : mr::pool::pending_release {
    detached_memory(watched_memory& memory, std::size_t at, std::size_t chunk_bytes)
        : all{memory}, offset{at}, bytes{chunk_bytes} {}
    [[nodiscard]] bool release(mr::pool::chunk_gift*) noexcept override {
      if (std::exchange(all.keeps_mappings, false)) return false;
      all.held_ -= bytes;
      all.mapped_.erase(offset);
      if (bytes != 0) all.when_released();
      return true;
    }
    watched_memory& all;
    std::size_t offset;
    std::size_t bytes;  // 0: an old address
  };
  using chunk = std::vector<stream_point>;  // by piece, its last use
  struct mapping_of {
    std::shared_ptr<chunk> memory;
    std::vector<stream_point> uses;
  };
  using mappings_by_offset = std::map<std::size_t, mapping_of>;

  struct left_addresses final : mr::pool::pending_release {
    left_addresses(watched_memory& memory, mappings_by_offset left)
        : all{memory}, mapped{std::move(left)} {}
    [[nodiscard]] bool release(mr::pool::chunk_gift*) noexcept override {
      for (const auto& [offset, each] : mapped) all.held_ -= each.memory->size() * piece;
      all.when_released();
      return true;
    }
    watched_memory& all;
    mappings_by_offset mapped;
  };

  void may_fail() {
    if (fails_at == 0) return;
    --fails_at;
    if (fails_at == 0) throw hip_error{1, "hipMemMap", "", 0};
  }
  void require_free(std::size_t offset, std::size_t bytes) const {
    REQUIRE(offset % traits.granularity == 0);
    REQUIRE(bytes % traits.granularity == 0);
    const auto next = mapped_.lower_bound(offset);
    if (next != mapped_.end()) REQUIRE(offset + bytes <= next->first);
    if (next != mapped_.begin()) {
      const auto& [first, before] = *std::prev(next);
      REQUIRE(first + before.memory->size() * piece <= offset);
    }
  }
  mappings_by_offset::iterator require_mapped(std::size_t offset, std::size_t bytes) {
    const auto at = mapped_.find(offset);
    REQUIRE(at != mapped_.end());
    REQUIRE(at->second.memory->size() * piece == bytes);
    return at;
  }
  void require_unused(const chunk& memory) const {
    for (const stream_point& last : memory)
      REQUIRE_MESSAGE(streams_.is_done(last), "memory in use is taken away");
  }
  template <typename Visit>
  void for_each_piece(std::size_t offset, std::size_t bytes, Visit visit) {
    for (std::size_t at = offset / piece; at < (offset + bytes + piece - 1) / piece; ++at) {
      auto around = mapped_.upper_bound(at * piece);
      REQUIRE(around != mapped_.begin());
      --around;
      const std::size_t index = at - around->first / piece;
      REQUIRE_MESSAGE(index < around->second.memory->size(), "memory is not backed");
      visit(around->second, (*around->second.memory)[index]);
    }
  }

  hand_driven_streams& streams_;
  std::size_t held_ = 0;
  mappings_by_offset mapped_;
  std::vector<std::shared_ptr<chunk>> set_aside_;
};

}  // namespace hipvmm::test
