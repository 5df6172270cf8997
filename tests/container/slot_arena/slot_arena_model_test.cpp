// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream_pool.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"

namespace hipvmm::test {
namespace {

/// An arena and the contents of its slots, driven by random calls on several streams. Each slot has
/// work of one stream at a time; the bytes of a slot are those of its number and round.
class arena_twin {
 public:
  explicit arena_twin(const slot_arena_options& options)
      : arena_{first_device, options}, model_(options.slots), options_{options} {}

  void step() {
    const std::size_t which = below(generator_, model_.size());
    slot_model& one = model_[which];
    const stream_ref stream = streams_.get_stream(one.stream);
    switch (below(generator_, shares_ ? 10 : 8)) {
      case 0:
        if (!one.in_use) return;
        arena_.release(which, stream);
        one = {};
        one.stream = below(generator_, streams_.size());
        return;
      case 1: {
        if (!one.in_use) return;
        const std::size_t length = below(generator_, one.bytes.size() + 1);
        arena_.truncate(which, length, stream);
        one.bytes.resize(length);
        return;
      }
      case 2: {
        if (std::all_of(model_.begin(), model_.end(), [](const auto& slot) { return slot.in_use; }))
          return;
        const std::size_t chosen = below(generator_, streams_.size());
        const std::size_t got = arena_.acquire(streams_.get_stream(chosen));
        REQUIRE_FALSE(model_[got].in_use);
        model_[got].in_use = true;
        model_[got].stream = chosen;
        return;
      }
      case 3:
        if (below(generator_, 8) == 0) arena_.trim();
        return;
      case 4:
      case 5:
      case 6:
      case 7:
        return grow(which);
      default:
        return share(which);
    }
  }
  void compare() {
    std::size_t used = 0;
    for (std::size_t which = 0; which < model_.size(); ++which) {
      slot_model& one = model_[which];
      REQUIRE(arena_.in_use(which) == one.in_use);
      REQUIRE(arena_.length(which) == one.bytes.size());
      used += one.bytes.size() * arena_.planes();
      REQUIRE(arena_.capacity(which) >= arena_.length(which));
      for (std::size_t plane = 0; plane < arena_.planes(); ++plane)
        REQUIRE(arena_.pointer(which, plane) ==
                advance(base_, which * arena_.slot_stride() + plane * arena_.plane_stride()));
      if (one.bytes.empty()) continue;
      for (std::size_t plane = 0; plane < arena_.planes(); ++plane)
        REQUIRE(read_bytes(streams_.get_stream(one.stream), arena_.pointer(which, plane),
                           one.bytes.size()) == one.bytes);
    }
    const slot_arena_statistics now = arena_.statistics();
    REQUIRE(now.used_bytes == used);
    REQUIRE(now.needed_bytes >= now.used_bytes);
    REQUIRE(now.held_bytes == now.needed_bytes + now.spare_bytes + now.kept_bytes);
    REQUIRE(now.held_bytes <= options_.budget_bytes);
  }

 private:
  struct slot_model {
    bool in_use = false;
    std::size_t stream = 0;
    byte_vector bytes;
  };

  /// If that fails, the slot gets its former length.
  bool make_writable(std::size_t which, std::size_t from, std::size_t bytes, stream_ref stream) {
    try {
      arena_.make_writable(which, from, bytes, stream);
      return true;
    } catch (const out_of_memory&) {
      arena_.truncate(which, from, stream);
      model_[which].bytes.resize(from);
      return false;
    }
  }

  /// Shows the first blocks of the slot in one that has nothing.
  void share(std::size_t which) {
    const std::size_t other = below(generator_, model_.size());
    slot_model& from = model_[which];
    slot_model& to = model_[other];
    if (!from.in_use || other == which || !to.bytes.empty()) return;
    const std::size_t bytes = below(generator_, from.bytes.size() + 1);
    try {
      arena_.share_prefix(which, sizes{other}, bytes, streams_.get_stream(from.stream));
    } catch (const out_of_memory&) {
      REQUIRE(arena_.in_use(other) == to.in_use);
      return;
    }
    to = {true, from.stream, {from.bytes.begin(), from.bytes.begin() + static_cast<long>(bytes)}};
  }

  /// Grows a slot, and its neighbour in the same call if both have one stream.
  void grow(std::size_t which) {
    const std::size_t other = (which + 1) % model_.size();
    sizes slots{which};
    if (model_[other].stream == model_[which].stream && other != which) slots.push_back(other);
    sizes lengths;
    for (const std::size_t slot : slots) {
      const std::size_t present = model_[slot].bytes.size();
      const std::size_t added_bytes =
          below(generator_, below(generator_, 2) == 0 ? 3000 : granule());
      lengths.push_back(std::min(present + added_bytes, options_.bytes_per_slot));
    }
    // A slot that is named twice, with a shorter length that it has already.
    if (below(generator_, 3) == 0) {
      slots.push_back(which);
      lengths.push_back(below(generator_, model_[which].bytes.size() + 1));
    }
    const stream_ref stream = streams_.get_stream(model_[which].stream);
    try {
      arena_.commit(slots, lengths, stream);
    } catch (const out_of_memory&) {
      for (const std::size_t slot : slots)
        REQUIRE(arena_.length(slot) == model_[slot].bytes.size());
      return;
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slot_model& one = model_[slots[i]];
      one.in_use = true;
      const std::size_t before = one.bytes.size();
      const byte_vector added(std::max(lengths[i], before) - before,
                              static_cast<unsigned char>(below(generator_, 256)));
      one.bytes.insert(one.bytes.end(), added.begin(), added.end());
      if (added.empty()) continue;
      if (!make_writable(slots[i], before, added.size(), stream)) continue;
      for (std::size_t plane = 0; plane < arena_.planes(); ++plane)
        copy(stream, advance(arena_.pointer(slots[i], plane), before), added.data(), added.size());
    }
  }

  stream_pool streams_{3};
  slot_arena arena_;
  void* const base_ = arena_.base();
  std::vector<slot_model> model_;
  slot_arena_options options_;
  bool shares_ = options_.layout == slot_layout::separate &&
                 !capability_of(first_device).needs(quirk::no_aliases);
  std::mt19937 generator_{seeded_generator()};
};

TEST_CASE("slot_arena: random calls do what the model does" * needs_virtual_memory) {
  slot_arena_options options = small_slots(8);
  options.block_bytes = 64 * KiB % granule() == 0 ? 64 * KiB : granule();
  options.bytes_per_slot = 3 * options.block_bytes;
  SUBCASE("without a budget") {}
  SUBCASE("with a budget") { options.budget_bytes = 2 * 10 * options.block_bytes; }
  SUBCASE("with a budget, prefetched") {
    options.budget_bytes = 2 * 12 * options.block_bytes;
    options.prefetch_blocks = 1;
  }
  SUBCASE("packed") {
    options.layout = slot_layout::packed;
    options.bytes_per_slot = options.block_bytes / 3;
    options.budget_bytes = 2 * 3 * options.block_bytes;
    options.prefetch_blocks = 1;
  }
  arena_twin twin{options};
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 30; ++i) twin.step();
    twin.compare();
  }
}

}  // namespace
}  // namespace hipvmm::test
