// SPDX-License-Identifier: MIT
// The index finds without a look at every block the same as a walk over all of them.
#include "mr/pool/allocator/placement.hpp"
#include "support/test.hpp"

namespace hipvmm::mr::pool {
namespace {

constexpr std::size_t granule = 64 * KiB;

struct rules_of_epochs final : block_filter {
  [[nodiscard]] bool is_usable(const block& one) const override {
    return one.state == block_state::free && one.epoch % 3 != 0;
  }
  [[nodiscard]] bool may_move(const block& one) const override { return one.epoch % 5 != 0; }
  [[nodiscard]] bool may_unmap(const block& one) const override {
    return one.state == block_state::leaving && one.epoch % 2 == 0;
  }
};

chunk_rules rules_for(const block_index& index) {
  return {{.granularity = granule}, 0, index.address_bytes(), 0};
}

/// scan_placements by a walk over all blocks in the order of their addresses.
class full_walk {
 public:
  full_walk(const block_index& index, const request& wanted) : index_{index}, wanted_{wanted} {
    block* run = nullptr;
    block* movable = nullptr;
    const block* gap_end = nullptr;
    for (block* at = &index.front();; at = at->next) {
      const std::size_t here = at == nullptr ? index.address_bytes() : at->offset;
      const bool joins_run = at != nullptr && filter_.is_usable(*at);
      const bool may_move = joins_run && filter_.may_move(*at);
      if (run != nullptr && !joins_run) add_run(*run, here);
      if (movable != nullptr && !may_move) add_idle_chunks(index_, *movable, here, found.sources);
      if (at == nullptr) break;
      if (gap_end == nullptr || at->offset >= gap_end->end()) {
        gap_end = nullptr;
        if (is_gap(*at)) gap_end = add_gap(*at, run);
      }
      run = !joins_run ? nullptr : run != nullptr ? run : at;
      movable = !may_move ? nullptr : movable != nullptr ? movable : at;
    }
  }
  placement_scan found;

 private:
  [[nodiscard]] bool is_gap(const block& one) const {
    return one.state == block_state::unmapped || filter_.may_unmap(one);
  }
  void add_run(block& run, std::size_t end) {
    const std::size_t at = index_.aligned(run.offset, wanted_.alignment);
    candidate& best = found.free_run;
    if (at + wanted_.bytes > end) return;
    if (best.first != nullptr && best.run_bytes <= end - run.offset) return;
    best = {&run, at};
    best.run_bytes = end - run.offset;
  }
  const block* add_gap(block& first, block* run) {
    candidate here{&first, index_.aligned(first.offset, wanted_.alignment), &first};
    const block* last = &first;
    here.unmaps = first.state != block_state::unmapped;
    while (last->next != nullptr && is_gap(*last->next)) {
      last = last->next;
      here.unmaps = here.unmaps || last->state != block_state::unmapped;
    }
    if (run != nullptr && index_.aligned(run->offset, wanted_.alignment) < first.offset) {
      here.first = run;
      here.at = index_.aligned(run->offset, wanted_.alignment);
    }
    here.map_at = std::max(first.offset, align_down(here.at, granule));
    const std::size_t end = here.at + wanted_.bytes;
    if (here.map_at >= last->end() || end <= first.offset) return last;
    here.map_room = last->end() - here.map_at;
    here.map_bytes = here.map_room;
    if (end <= last->end()) here.map_bytes = align_up(end - here.map_at, granule);
    std::size_t reached = last->end();
    for (const block* next = last->next; reached < end; next = next->next) {
      if (next == nullptr || !filter_.is_usable(*next)) return last;
      reached = next->end();
    }
    if (found.smallest_need.first == nullptr || here.map_bytes < found.smallest_need.map_bytes)
      found.smallest_need = here;
    if (found.largest_gap.first == nullptr || here.map_room > found.largest_gap.map_room)
      found.largest_gap = here;
    return last;
  }

  const block_index& index_;
  request wanted_;
  rules_of_epochs filter_;
};

void check_same(const candidate& a, const candidate& b) {
  REQUIRE(a.first == b.first);
  if (a.first == nullptr) return;
  REQUIRE(a.at == b.at);
  REQUIRE(a.unmapped == b.unmapped);
  REQUIRE(a.unmaps == b.unmaps);
  REQUIRE(a.map_at == b.map_at);
  REQUIRE(a.map_bytes == b.map_bytes);
  REQUIRE(a.map_room == b.map_room);
  REQUIRE(a.run_bytes == b.run_bytes);
}

void check_same_scan(const block_index& index, const request& wanted) {
  CAPTURE(wanted.bytes);
  CAPTURE(wanted.alignment);
  placement_scan quick = scan_placements(index, wanted, rules_of_epochs{}, rules_for(index));
  full_walk slow{index, wanted};
  check_same(quick.free_run, slow.found.free_run);
  check_same(quick.smallest_need, slow.found.smallest_need);
  check_same(quick.largest_gap, slow.found.largest_gap);
  const auto by_offset = [](const idle_chunk& a, const idle_chunk& b) {
    return a.offset < b.offset;
  };
  std::sort(quick.sources.begin(), quick.sources.end(), by_offset);
  REQUIRE(quick.sources.size() == slow.found.sources.size());
  for (std::size_t i = 0; i < quick.sources.size(); ++i) {
    REQUIRE(quick.sources[i].offset == slow.found.sources[i].offset);
    REQUIRE(quick.sources[i].run_bytes == slow.found.sources[i].run_bytes);
    REQUIRE(quick.sources[i].first == slow.found.sources[i].first);
  }
}

/// An index that random calls change.
struct random_index {
  explicit random_index(unsigned seed) : random{seed} {}
  ~random_index() {
    for (block_owner& each : owners) each.free().clear();
  }
  random_index& operator=(random_index&&) = delete;
  std::size_t below(std::size_t end) { return random() % end; }

  void back_some() {
    for (block* at = &index.front(); at != nullptr; at = at->next) {
      if (at->state != block_state::unmapped || at->bytes < granule || below(3) == 0) continue;
      const std::size_t bytes =
          granule * (1 + below(std::min<std::size_t>(at->bytes / granule, 6)));
      const std::size_t from = at->offset + granule * below((at->bytes - bytes) / granule + 1);
      block& gap = index.take_unmapped(*at, from, bytes);
      block_index::chunk_map made;
      made.emplace(0, block_index::chunk{bytes, 0});
      index.add_chunk(made.extract(made.begin()), gap.offset);
      release(gap);
      return;
    }
  }
  void release(block& busy) {
    busy.owner = &owners[below(owners.size())];
    busy.epoch = busy.owner == &owners[0] ? 1 : 1 + below(30);
    index.make_free(busy);
  }
  void use_some() {
    block_owner& from = owners[below(owners.size())];
    const std::size_t alignment = std::size_t{256} << (2 * below(3));
    const std::size_t bytes = 256 * (1 + below(below(4) == 0 ? 400 : 20));
    block* const one = index.best_fit(from, bytes, alignment);
    if (one == nullptr) return;
    const std::size_t at = index.aligned(one->offset, alignment);
    index.make_used(index.take(*one, at, bytes), at + bytes, from, 1);
    used.emplace_back(at, bytes);
  }
  void free_some() {
    if (used.empty()) return;
    std::swap(used[below(used.size())], used.back());
    release(*index.take_used(used.back().first, used.back().second));
    used.pop_back();
  }
  /// A chunk that is free as a whole leaves its address.
  void unmap_some() {
    for (const auto& [offset, each] : index.chunks()) {
      std::vector<idle_chunk> found;
      block* first = &index.front();
      while (first->end() <= offset) first = first->next;
      bool is_free = true;
      for (const block* at = first; at != nullptr && at->offset < offset + each.bytes;
           at = at->next)
        is_free = is_free && at->state == block_state::free;
      if (!is_free || below(2) == 0) continue;
      block_index::blocks claimed;
      index.claim(*first, offset, offset + each.bytes, claimed);
      index.merge(*claimed.front(), offset + each.bytes);
      const auto gone = index.take_chunk(offset);
      if (below(2) == 0)
        index.make_leaving(*claimed.front(), owners[1], below(10));
      else
        index.make_unmapped(*claimed.front());
      return;
    }
    for (block* at = &index.front(); at != nullptr; at = at->next) {
      if (at->state != block_state::leaving) continue;
      index.take_leaving(*at);
      index.make_unmapped(*at);
      return;
    }
  }
  void step() {
    index.prepare_for(8);
    switch (below(8)) {
      case 0:
        return back_some();
      case 1:
        return unmap_some();
      case 2:
      case 3:
      case 4:
        return use_some();
      default:
        return free_some();
    }
  }
  void check() {
    std::array<std::size_t, 4> free{};
    std::size_t unmapped = 0;
    for (block* at = &index.front(); at != nullptr; at = at->next) {
      if (at->state == block_state::unmapped) unmapped += at->bytes;
      if (at->state == block_state::free)
        free[static_cast<std::size_t>(static_cast<block_owner*>(at->owner) - owners.data())] +=
            at->bytes;
    }
    for (std::size_t i = 0; i < owners.size(); ++i) REQUIRE(owners[i].free_bytes() == free[i]);
    REQUIRE(index.unmapped_bytes() == unmapped);
    std::size_t smallest = index.address_bytes();
    for (const auto& [offset, each] : index.chunks()) smallest = std::min(smallest, each.bytes);
    REQUIRE(index.least_chunk() <= smallest);
    REQUIRE(2 * index.least_chunk() > smallest);
    for (const std::size_t bytes : {std::size_t{256}, 4 * KiB, granule, 3 * granule, 20 * granule})
      for (const std::size_t alignment : {256, 4096}) check_same_scan(index, {bytes, alignment});
  }

  std::mt19937 random;
  std::array<block_owner, 4> owners{block_owner{false}, block_owner{true}, block_owner{true},
                                    block_owner{false}};
  block_index index{64 * granule, 0, owners[0]};
  std::vector<std::pair<std::size_t, std::size_t>> used;
};

}  // namespace

TEST_CASE("pool: what is found for a request is what a walk over all blocks finds") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    random_index it{seed};
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      it.step();
      if (i % 4 == 0) it.check();
    }
  }
}

}  // namespace hipvmm::mr::pool
