// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/block_allocator.hpp"

#include "mr/pool/allocator/fake_backend.hpp"
#include "support/random_seed.hpp"
#include "support/rounds.hpp"
#include "support/test.hpp"

// Random programs of four streams that go on at random. The fake memory judges every use: backed,
// behind the use before, nothing taken away that is in use.
namespace hipvmm::mr::pool {
namespace {

using test::hand_driven_streams;
using test::watched_memory;

struct program {
  struct owned {
    std::size_t bytes;
    std::size_t stream;
  };
  static constexpr std::size_t stream_count = 4;

  program(bool aliases, pool_reuse rules, std::mt19937& seeds)
      : streams{stream_count}, memory{streams, aliases, 4 * GiB}, random{seeds()} {
    all.set_reuse(rules);
  }

  std::size_t any(std::size_t limit) { return test::below(random, limit); }
  stream_state& state(std::size_t stream) {
    return all.state_of(hand_driven_streams::name(stream));
  }

  void allocate() {
    const std::size_t stream = any(stream_count);
    const std::size_t pieces = any(4) == 0 ? 1 + any(320) : 1 + any(40);
    const std::size_t bytes = pieces * watched_memory::piece;
    const std::size_t alignment = any(8) == 0 ? 2 * MiB : watched_memory::piece;
    const bool for_all = any(16) == 0;
    try {
      const auto at = all.allocate(for_all ? all.idle() : state(stream), {bytes, alignment});
      if (!at) {
        ++refused;
        return;
      }
      REQUIRE(*at % alignment == 0);
      // No block that lives reaches into it.
      const auto next = live.lower_bound(*at);
      if (next != live.end()) REQUIRE(*at + bytes <= next->first);
      if (next != live.begin()) {
        const auto& [first, before] = *std::prev(next);
        REQUIRE(first + before.bytes <= *at);
      }
      if (for_all) memory.require_idle(*at, bytes);
      memory.use(stream, *at, bytes);
      live.emplace(*at, owned{bytes, stream});
      used += bytes;
    } catch (const out_of_memory&) {
      ++refused;
    } catch (const hip_error&) {
      ++refused;
    }
  }
  void deallocate() {
    if (live.empty()) return;
    auto one = live.begin();
    std::advance(one, static_cast<std::ptrdiff_t>(any(live.size())));
    const auto [at, block] = *one;
    std::size_t stream = block.stream;
    const std::size_t how = any(16);
    const bool for_all = how == 0;
    if (how == 1) {
      // By address alone.
      const auto found = all.find(at);
      REQUIRE(found);
      REQUIRE(found->bytes == block.bytes);
      if (found->user == nullptr) streams.finish_all();
      if (found->user != nullptr && !found->user->is_idle())
        REQUIRE(found->user->stream() == hand_driven_streams::name(stream));
      if (found->user != nullptr && found->user->is_idle()) streams.finish(stream);
      REQUIRE(all.deallocate(found->user == nullptr ? all.idle() : *found->user, at, block.bytes));
      live.erase(one);
      used -= block.bytes;
      return;
    }
    if (for_all) {
      streams.finish(stream);
    } else if (any(4) == 0) {
      stream = any(stream_count);
      streams.wait(stream, block.stream);
    }
    REQUIRE(all.deallocate(for_all ? all.idle() : state(stream), at, block.bytes));
    live.erase(one);
    used -= block.bytes;
  }
  void step() {
    const std::size_t what = any(100);
    if (what < 42)
      live.size() < 60 ? allocate() : deallocate();
    else if (what < 80)
      deallocate();
    else if (what < 90)
      go_on(any(stream_count));
    else if (what < 93)
      streams.finish(any(stream_count));
    else if (what < 96)
      announce(any(stream_count), any(stream_count));
    else if (what == 96)
      forget_or_capture(any(stream_count));
    else if (what == 97)
      memory.fails_at = 1 + any(6);
    else
      memory.fails_at = 0;
  }
  void go_on(std::size_t stream) { streams.advance(stream, any(streams.submitted(stream) + 1)); }
  void announce(std::size_t waiter, std::size_t other) {
    if (waiter == other) return;
    streams.wait(waiter, other);
    all.add_dependency(state(waiter), state(other));
  }
  void forget_or_capture(std::size_t stream) {
    if (any(2) == 0)
      streams.set_captured(stream, !streams.is_captured(stream));
    else if (!streams.is_captured(stream))
      all.forget(hand_driven_streams::name(stream));
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      INFO("step " << i);
      step();
      REQUIRE(all.counters().used_current == used);
      REQUIRE(all.counters().reserved_current == memory.held());
    }
    REQUIRE(all.usage_snapshot().states <= 4 * stream_count);
    memory.fails_at = 0;
    for (std::size_t i = 0; i < stream_count; ++i) streams.set_captured(i, false);
    while (!live.empty()) deallocate();
    // All memory is one again.
    streams.finish_all();
    const std::size_t held = memory.held();
    all.set_limit(held);
    REQUIRE(all.allocate(all.idle(), {held, 256}));
    REQUIRE(memory.held() == held);
  }

  hand_driven_streams streams;
  watched_memory memory;
  block_allocator all{memory, streams, 2 * MiB};
  std::mt19937 random;
  std::map<std::size_t, owned> live;
  std::size_t used = 0;
  int refused = 0;
};

}  // namespace

TEST_CASE("pool: random programs of many streams use memory in order, by every set of rules") {
  std::mt19937 seeds = test::seeded_generator();
  for (int chosen = 0; chosen < 16; ++chosen) {
    const bool aliases = (chosen & 8) != 0;
    const pool_reuse rules{(chosen & 1) != 0, (chosen & 2) != 0, (chosen & 4) != 0};
    for (const std::size_t capacity : {16 * GiB, 160 * MiB}) {
      INFO("rules " << chosen << ", capacity " << capacity);
      program one{aliases, rules, seeds};
      one.memory.capacity = capacity;
      one.run(test::rounds(1500));
    }
  }
}

}  // namespace hipvmm::mr::pool
