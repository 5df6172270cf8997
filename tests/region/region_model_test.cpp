// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "support/random_seed.hpp"
#include "support/region/prefetch_levels.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// The expected state of a region: per granule whether it is backed and its tag, and the chunks.
class region_model {
 public:
  explicit region_model(std::size_t granules) : tags_(granules, nothing) {}

  /// The granules that a commit of [first, end) backs.
  std::vector<std::size_t> commit(std::size_t first, std::size_t end) {
    std::vector<std::size_t> added;
    const auto back = [&](std::size_t from, std::size_t to) {
      const std::size_t gap = from;
      for (; from < to && tags_[from] == nothing; ++from) {
        added.push_back(from);
        tags_[from] = untagged;
      }
      chunks_[gap] = from;
      return from;
    };
    if (first != end && first < ready_end_ && ready_at_ < end) {
      back(ready_at_, ready_end_);
      drop_ready();
    }
    for (std::size_t at = first; at < end;) at = tags_[at] != nothing ? at + 1 : back(at, end);
    return added;
  }
  /// A chunk is made ready behind the last one, if none is and no move goes on.
  void prepare(std::size_t count) {
    if (ready() != 0 || !left_.empty()) return;
    ready_at_ = chunks_.empty() ? 0 : chunks_.rbegin()->second;
    ready_end_ = std::min(ready_at_ + count, granules());
  }
  void drop_ready() { ready_at_ = ready_end_ = 0; }
  [[nodiscard]] std::size_t ready() const { return ready_end_ - ready_at_; }
  [[nodiscard]] bool is_ready(std::size_t index) const {
    return ready_at_ <= index && index < ready_end_;
  }
  /// The granules that a decommit of [first, end) releases.
  std::size_t decommit(std::size_t first, std::size_t end) {
    std::size_t returned = 0;
    for (auto chunk = chunks_.lower_bound(first); chunk != chunks_.end() && chunk->second <= end;) {
      for (std::size_t at = chunk->first; at < chunk->second; ++at) tags_[at] = nothing;
      returned += chunk->second - chunk->first;
      chunk = chunks_.erase(chunk);
    }
    if (chunks_.lower_bound(first) == chunks_.end()) drop_ready();
    return returned;
  }

  /// The same for a trim to `end`.
  std::size_t trim(std::size_t end) {
    drop_ready();
    return decommit(end, granules());
  }

  /// The first `front` granules, of which none is backed, go, and a chunk that is ready there. One
  /// behind them is taken along: returns its granules.
  std::vector<std::size_t> rebase(std::size_t front, std::size_t granules) {
    if (ready_at_ < front) drop_ready();
    std::vector<std::size_t> added = commit(ready_at_, ready_end_);
    for (std::size_t& each : added) each -= front;
    tags_.erase(tags_.begin(), tags_.begin() + static_cast<std::ptrdiff_t>(front));
    tags_.resize(granules, nothing);
    for (const auto& [at, end] : std::exchange(chunks_, {})) chunks_[at - front] = end - front;
    return added;
  }
  [[nodiscard]] std::size_t free_in_front() const {
    return chunks_.empty() ? granules() - 1 : chunks_.begin()->first;
  }
  [[nodiscard]] bool is_moving() const { return !left_.empty(); }

  /// Whether a chunk that moved is still mapped somewhere in [first, end).
  [[nodiscard]] bool is_left_within(std::size_t first, std::size_t end) const {
    return first != end && std::any_of(left_.begin(), left_.end(), [&](const auto& one) {
             return one.first < end && first < one.second.end;
           });
  }
  /// Whether [first, end) holds all of a chunk that is mapped elsewhere too.
  [[nodiscard]] bool takes_moving(std::size_t first, std::size_t end) const {
    return std::any_of(left_.begin(), left_.end(), [&](const auto& one) {
      const auto chunk = chunks_.find(one.second.now);
      return first <= chunk->first && chunk->second <= end;
    });
  }
  /// Whether the chunk at `from` may move to `to`; then it has.
  bool move(std::size_t from, std::size_t to) {
    const auto chunk = chunks_.find(from);
    if (chunk == chunks_.end()) return false;
    const std::size_t size = chunk->second - from;
    if (to + size > granules() || is_left_within(to, to + size)) return false;
    for (std::size_t at = to; at < to + size; ++at)
      if (backed(at)) return false;
    for (std::size_t at = 0; at < size; ++at)
      tags_[to + at] = std::exchange(tags_[from + at], nothing);
    chunks_.erase(chunk);
    chunks_[to] = to + size;
    for (auto& one : left_)
      if (one.second.now == from) one.second.now = to;
    left_[from] = {from + size, to};
    drop_ready();
    return true;
  }
  bool end_move(std::size_t from) { return left_.erase(from) != 0; }
  /// The tag that granule `index`, which a chunk left, shows until the move ends.
  [[nodiscard]] std::uint32_t tag_left_at(std::size_t index) const {
    const auto one = std::prev(left_.upper_bound(index));
    return tags_[one->second.now + index - one->first];
  }

  void set_tag(std::size_t index, std::uint32_t tag) { tags_[index] = tag; }
  [[nodiscard]] std::uint32_t tag(std::size_t index) const { return tags_[index]; }
  [[nodiscard]] bool backed(std::size_t index) const { return tags_[index] != nothing; }
  [[nodiscard]] std::size_t chunk_count() const { return chunks_.size(); }
  [[nodiscard]] std::size_t granules() const { return tags_.size(); }
  [[nodiscard]] std::size_t backed_from(std::size_t first) const {
    std::size_t at = first;
    while (at < tags_.size() && backed(at)) ++at;
    return at - first;
  }
  [[nodiscard]] std::size_t backed_granules() const {
    std::size_t count = 0;
    for (const std::uint32_t tag : tags_) count += tag != nothing;
    return count;
  }

 private:
  std::size_t ready_at_ = 0;
  std::size_t ready_end_ = 0;
  static constexpr std::uint32_t nothing = 0;
  static constexpr std::uint32_t untagged = 1;

  std::vector<std::uint32_t> tags_;
  std::map<std::size_t, std::size_t> chunks_;  // first granule to end
  struct old_mappings {
    std::size_t end;
    std::size_t now;  // the place of the chunk
  };
  std::map<std::size_t, old_mappings> left_;  // by first granule
};

// A tag does not tell its granule, because it moves.
void write_region_tag(const region& region, std::size_t index, std::uint32_t tag,
                      stream_ref stream) {
  copy(stream, advance(region.base(), index * region.granularity()), &tag, sizeof tag);
}

std::uint32_t region_tag(const region& region, std::size_t index, stream_ref stream) {
  std::uint32_t tag = 0;
  copy(stream, &tag, advance(region.base(), index * region.granularity()), sizeof tag);
  return tag;
}

void compare(const region& region, const region_model& model, stream_ref stream) {
  const std::size_t unit = region.granularity();
  REQUIRE(region.max_bytes() == model.granules() * unit);
  REQUIRE(region.committed_bytes() == model.backed_granules() * unit);
  REQUIRE(region.chunk_count() == model.chunk_count());
  REQUIRE(region.prepared_bytes() == model.ready() * unit);
  for (std::size_t index = 0; index < model.granules(); ++index) {
    CAPTURE(index);
    REQUIRE(region.committed_from(index * unit) == model.backed_from(index) * unit);
    void* const at = advance(region.base(), index * unit);
    if (model.backed(index)) {
      REQUIRE(get_access(at, region.device()) == access_right::read_write);
      REQUIRE(region_tag(region, index, stream) == model.tag(index));
    } else if (model.is_left_within(index, index + 1)) {
      REQUIRE(region_tag(region, index, stream) == model.tag_left_at(index));
    } else if (!model.is_ready(index)) {
      REQUIRE_THROWS_AS(static_cast<void>(get_access(at, region.device())), hip_error);
    }
  }
}

constexpr std::size_t model_granules = 24;

void run(chunk_cache& cache, std::size_t most_at_once) {
  std::mt19937 generator = seeded_generator();
  const stream stream;
  region region{first_device, model_granules * granule(), {.cache = &cache}};
  const std::size_t unit = region.granularity();
  const bool moves = region.can_move_chunks();
  region_model model{model_granules};
  for (std::uint32_t step = 0; step < 400; ++step) {
    CAPTURE(step);
    const std::size_t first = below(generator, model.granules() + 1);
    const std::size_t most = std::min(model.granules() - first, most_at_once);
    const bool in_steps = !takes_any_layout();
    const std::size_t end = first + below(generator, most + 1);
    const std::size_t what = below(generator, moves ? 6 : 4);
    const auto tag = [&](const std::vector<std::size_t>& granules) {
      for (const std::size_t index : granules) {
        write_region_tag(region, index, step + 2, stream);
        model.set_tag(index, step + 2);
      }
    };
    if (what == 0 && below(generator, 4) == 0 && !model.is_moving()) {
      const std::size_t front = below(generator, model.free_in_front() + 1);
      const std::size_t size = model_granules + below(generator, model_granules);
      const std::size_t backed = in_steps ? 0 : below(generator, most_at_once);
      region.rebase(front * unit, size * unit, backed * unit);
      tag(model.rebase(front, region.max_bytes() / unit));
      tag(model.commit(0, backed));
      REQUIRE(model.granules() >= size);
    } else if (what == 2 && below(generator, 2) == 0) {
      const std::size_t count = in_steps ? 1 : 1 + below(generator, 4);
      region.prepare(count * unit, both_ways[below(generator, 2)]);
      detail::wait_for_background_tasks();
      model.prepare(count);
    } else if (what == 4) {
      const std::size_t to = below(generator, model.granules());
      if (model.move(first, to)) {
        region.move_chunk(first * unit, to * unit);
      } else {
        REQUIRE_THROWS_AS(region.move_chunk(first * unit, to * unit), std::logic_error);
        if (region.prepared_bytes() == 0) model.drop_ready();
      }
    } else if (what == 5) {
      if (model.end_move(first)) {
        region.end_move(first * unit);
      } else {
        REQUIRE_THROWS_AS(region.end_move(first * unit), std::invalid_argument);
      }
    } else if (what == 3 && below(generator, 3) == 0) {
      const auto trim = [&] { return region.trim(first * unit, stream); };
      if (model.is_moving())
        REQUIRE_THROWS_AS(trim(), std::invalid_argument);
      else
        REQUIRE(trim() == model.trim(first) * unit);
    } else if (what % 2 == 0 && model.is_left_within(first, end)) {
      REQUIRE_THROWS_AS(region.commit(first * unit, (end - first) * unit), std::invalid_argument);
    } else if (what % 2 != 0 && model.takes_moving(first, end)) {
      REQUIRE_THROWS_AS(region.decommit(first * unit, (end - first) * unit), std::invalid_argument);
    } else if (what % 2 == 0) {
      for (std::size_t at = first; at < end; at = in_steps ? at + 1 : end) {
        const std::size_t to = in_steps ? at + 1 : end;
        region.commit(at * unit, (to - at) * unit);
        tag(model.commit(at, to));
      }
    } else {
      const std::size_t offset = first * unit;
      const std::size_t bytes = (end - first) * unit;
      const bool in_stream = below(generator, 2) == 0;
      REQUIRE((in_stream ? region.decommit(offset, bytes, stream)
                         : region.decommit(offset, bytes)) == model.decommit(first, end) * unit);
    }
    if (step % 10 == 0) compare(region, model, stream);
  }
  compare(region, model, stream);
}

TEST_CASE("region: random calls that back, prepare, release and move agree with a model") {
  chunk_cache keeps_nothing;
  run(keeps_nothing, model_granules);
}

TEST_CASE("region: random commits and decommits agree with a model where chunks are recycled") {
  chunk_cache keeps_some{16 * granule()};
  run(keeps_some, 3);  // few sizes, so that kept chunks are wanted again for certain
  CHECK(keeps_some.statistics().hits > 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
