// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"
#include "support/random_seed.hpp"
#include "support/region/prefetch_levels.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// The rights of the owner and of one peer.
using right_pair = std::array<access_right, 2>;
constexpr right_pair default_rights{access_right::read_write, access_right::none};

/// A region of which each chunk may have rights of its own, beside its expected state. Offsets are
/// granules.
class modelled_rights {
 public:
  explicit modelled_rights(device_ref peer) : devices_{first_device, peer} {}

  void step(std::mt19937& generator) {
    switch (below(generator, 9)) {
      case 0:
      case 1:
        return commit(generator);
      case 2:
        return decommit(generator);
      case 3:
        return grant(generator);
      case 4:
        return set_all(generator);
      case 5:
        return set_range(generator);
      case 6:
        return move(generator);
      case 7:
        return trim(generator);
      default:
        region_.prepare(unit_, both_ways[below(generator, 2)]);
        if (below(generator, 2) == 0) detail::wait_for_background_tasks();
    }
  }

  void compare() const {
    const std::vector<chunk_access> found = region_.effective_access(0, region_.max_bytes());
    REQUIRE(found.size() == chunks_.size());
    for (const std::size_t index : {0U, 1U}) CHECK(region_.access(devices_[index]) == all_[index]);
    auto next = found.begin();
    for (const auto& [first, chunk] : chunks_) {
      CAPTURE(first);
      REQUIRE(next->offset == first * unit_);
      REQUIRE(next->bytes == chunk.count * unit_);
      const access_map& recorded = region_.rights_at(first * unit_);
      for (const std::size_t index : {0U, 1U}) {
        CAPTURE(index);
        const access_right expected = chunk.own.value_or(all_)[index];
        CHECK(next->rights.find(devices_[index]) == expected);
        CHECK(recorded.get(devices_[index]) == expected);
        if (chunk.left)
          CHECK(get_access(advance(region_.base(), *chunk.left * unit_), devices_[index]) ==
                expected);
      }
      ++next;
    }
  }

 private:
  struct modelled_chunk {
    std::size_t count;
    std::optional<right_pair> own;
    std::optional<std::size_t> left;  // its second address
  };
  using chunk_map = std::map<std::size_t, modelled_chunk>;

  static access_right any_right(std::mt19937& generator) {
    return std::array{access_right::none, access_right::read,
                      access_right::read_write}[below(generator, 3)];
  }
  /// A list and the rights that it asks for.
  std::pair<access_list, right_pair> any_list(std::mt19937& generator) const {
    std::vector<access_desc> entries;
    right_pair wanted = default_rights;
    for (const std::size_t index : {1U, 0U}) {
      if (below(generator, 2) == 0) continue;
      wanted[index] = any_right(generator);
      entries.push_back({devices_[index], wanted[index]});
    }
    return {access_list{std::move(entries)}, wanted};
  }
  [[nodiscard]] bool is_free(std::size_t first, std::size_t count) const {
    for (const auto& [at, chunk] : chunks_) {
      if (at < first + count && first < at + chunk.count) return false;
      if (chunk.left && *chunk.left < first + count && first < *chunk.left + chunk.count)
        return false;
    }
    return true;
  }

  void commit(std::mt19937& generator) {
    // A chunk that is ready has one granule too.
    const std::size_t first = below(generator, granules);
    if (!is_free(first, 1)) return;
    region_.commit(first * unit_, unit_);
    chunks_[first] = {1, std::nullopt, std::nullopt};
  }
  void decommit(std::mt19937& generator) {
    const std::size_t first = below(generator, granules);
    const std::size_t end = first + 1 + below(generator, granules - first);
    for (auto at = chunks_.lower_bound(first); at != chunks_.end() && at->first < end;) {
      end_move(at);
      at = at->first + at->second.count <= end ? chunks_.erase(at) : std::next(at);
    }
    region_.decommit(first * unit_, (end - first) * unit_);
  }
  void trim(std::mt19937& generator) {
    for (auto at = chunks_.begin(); at != chunks_.end(); ++at) end_move(at);
    const std::size_t end = granules / 2 + below(generator, granules / 2);
    region_.trim(end * unit_, hipvmm::stream{});
    chunks_.erase(chunks_.lower_bound(end), chunks_.end());
  }
  void grant(std::mt19937& generator) {
    const std::size_t index = below(generator, 2);
    const access_right right = any_right(generator);
    region_.grant(devices_[index], right);
    all_[index] = right;
    for (auto& [at, chunk] : chunks_)
      if (chunk.own) (*chunk.own)[index] = right;
  }
  void set_all(std::mt19937& generator) {
    const auto [list, wanted] = any_list(generator);
    region_.set_access(list);
    all_ = wanted;
    for (auto& [at, chunk] : chunks_) chunk.own.reset();
  }
  void set_range(std::mt19937& generator) {
    const auto [list, wanted] = any_list(generator);
    const std::size_t first = below(generator, granules);
    const std::size_t end =
        first + 1 + below(generator, std::min<std::size_t>(6, granules - first));
    std::vector<chunk_map::iterator> whole;
    std::size_t next = first;
    for (auto at = chunks_.find(first); at != chunks_.end() && at->first == next && next < end;
         ++at) {
      whole.push_back(at);
      next += at->second.count;
    }
    const auto set = [&, rights = list] {
      region_.set_access(first * unit_, (end - first) * unit_, rights);
    };
    if (next != end) {
      CHECK_THROWS_AS(set(), std::invalid_argument);
      return;
    }
    set();
    // Rights that are those of the region follow it.
    for (const auto& each : whole) {
      each->second.own.reset();
      if (wanted != all_) each->second.own = wanted;
    }
  }
  void end_move(chunk_map::iterator at) {
    if (!at->second.left) return;
    region_.end_move(*at->second.left * unit_);
    at->second.left.reset();
  }
  void move(std::mt19937& generator) {
    if (!region_.can_move_chunks() || chunks_.empty()) return;
    const auto at =
        std::next(chunks_.begin(), static_cast<std::ptrdiff_t>(below(generator, chunks_.size())));
    if (at->second.left) return end_move(at);
    const std::size_t to = below(generator, granules - at->second.count);
    if (!is_free(to, at->second.count)) return;
    region_.move_chunk(at->first * unit_, to * unit_);
    auto node = chunks_.extract(at);
    node.mapped().left = node.key();
    node.key() = to;
    chunks_.insert(std::move(node));
  }

  static constexpr std::size_t granules = 24;
  const std::size_t unit_ = granule();
  const std::array<device_ref, 2> devices_;
  region region_{first_device, granules* unit_};
  right_pair all_ = default_rights;
  chunk_map chunks_;
};

TEST_CASE("region: random rights of the whole and of chunks agree with a model") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  std::mt19937 generator = seeded_generator();
  modelled_rights both{peer};
  for (int step = 0; step < 1000; ++step) {
    CAPTURE(step);
    both.step(generator);
    if (step % 5 == 0) both.compare();
  }
  both.compare();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
