// SPDX-License-Identifier: MIT
// Random calls of an arena with a budget, a cache, a tag and faults: it holds as many bytes as
// HIP counts, and slots_that_fit() is zero exactly if acquire() and commit() fail.
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t stamp_bytes = 16;

class random_arena {
 public:
  random_arena(std::mt19937& generator, bool fails)
      : generator_{generator},
        fails_{fails},
        outside_{hipvmm_host_device_bytes(0)},
        options_{chosen_options()},
        arena_{first_device, options_},
        slots_(options_.slots) {
    shares_ = options_.layout == slot_layout::separate &&
              !capability_of(first_device).needs(quirk::no_aliases);
  }

  void step() {
    last_ = below(generator_, 20);
    CAPTURE(last_);
    const error_recorder reported;
    std::optional<planned_faults> faults;
    if (fails_ && below(generator_, 3) == 0)
      faults.emplace("any nth=" + std::to_string(1 + below(generator_, 30)) +
                     " error=hipErrorOperatingSystem");
    try {
      call(last_);
    } catch (const hip_error&) {
      if (!fails_) throw;
    } catch (const out_of_memory&) {
    } catch (const std::logic_error&) {
      if (!tag_.is_asleep()) throw;
    }
    detail::wait_for_background_tasks();
    faults.reset();
    if (!fails_) REQUIRE(reported.count() == 0);
    check();
  }
  /// All but the arena itself is as before it was made.
  void end() {
    hog_.reset();
    if (tag_.is_asleep()) resume(tag_);
  }

 private:
  struct model {
    bool in_use = false;
    std::size_t length = 0;
    std::map<std::size_t, std::uint32_t> stamps;  // by offset, in each plane
  };

  slot_arena_options chosen_options() {
    slot_arena_options result = small_slots(6);
    if (below(generator_, 2) == 0) {
      result.layout = slot_layout::packed;
      result.bytes_per_slot = granule() / 16 * (1 + below(generator_, 30));
    }
    result.planes = 1 + below(generator_, 2);
    result.prefetch_blocks = below(generator_, 2);
    result.tag = tag_;
    if (below(generator_, 2) == 0) result.cache = &cache_;
    result.budget_bytes = random_budget(result.planes);
    return result;
  }
  std::size_t random_budget(std::size_t planes) {
    return below(generator_, 4) == 0 ? slot_arena_options::no_budget
                                     : below(generator_, 12) * planes * granule();
  }
  std::size_t random_length() { return below(generator_, options_.bytes_per_slot + 1); }

  void call(std::size_t what) {
    const std::size_t which = below(generator_, slots_.size());
    model& one = slots_[which];
    switch (what) {
      case 0:
      case 1:
      case 2:
      case 3:
        return admit();
      case 4:
      case 5:
      case 6:
      case 7:
        return grow(which,
                    one.length + below(generator_, options_.bytes_per_slot - one.length + 1));
      case 8:
      case 9:
      case 10:
        if (!one.in_use) return;
        arena_.release(which, stream_);
        one = {};
        return;
      case 11:
      case 12: {
        if (!one.in_use) return;
        const std::size_t length = below(generator_, one.length + 1);
        arena_.truncate(which, length, stream_);
        one.length = length;
        one.stamps.erase(one.stamps.lower_bound(length - std::min(length, stamp_bytes - 1)),
                         one.stamps.end());
        return;
      }
      case 13:
        arena_.trim();
        return;
      case 14:
        return arena_.set_budget(random_budget(options_.planes));
      case 15:
        return share(which, below(generator_, slots_.size()));
      case 16:
        if (one.length != 0) {
          const std::size_t from = below(generator_, one.length);
          arena_.make_writable(which, from, 1 + below(generator_, one.length - from), stream_);
        }
        return;
      case 17:
        if (tag_.is_asleep())
          resume(tag_);
        else
          suspend(tag_, keep::contents);
        return;
      case 18:
        if (tag_.is_asleep()) resume(tag_);
        return;
      default:
        hog_.reset();
        cache_.trim();
        chunk_cache::shared().trim();
        drain_retired_memory();
        if (const std::size_t left = below(generator_, 10) * granule() / 2;
            below(generator_, 2) == 0 && first_device.free_memory() > left + granule())
          hog_.emplace(first_device, (first_device.free_memory() - left) / granule() * granule());
        return;
    }
  }

  void admit() {
    stream_.synchronize();
    detail::wait_for_background_tasks();
    const std::size_t length = 1 + below(generator_, options_.bytes_per_slot);
    const bool is_asleep = tag_.is_asleep();
    const std::size_t fitting = arena_.slots_that_fit(length);
    CAPTURE(length);
    CAPTURE(fitting);
    std::size_t slot = 0;
    try {
      slot = arena_.acquire(stream_);
    } catch (const out_of_memory&) {
      REQUIRE(fitting == 0);
      return;
    }
    REQUIRE_FALSE(slots_[slot].in_use);
    slots_[slot].in_use = true;
    CAPTURE(slot);
    try {
      grow(slot, length);
      if (!fails_) REQUIRE(fitting != 0);
    } catch (const out_of_memory& error) {
      CAPTURE(error.what());
      if (!fails_ && !is_asleep) REQUIRE(fitting == 0);
      throw;
    }
  }

  void grow(std::size_t which, std::size_t length) {
    model& one = slots_[which];
    arena_.commit(sizes{which}, sizes{length}, stream_);
    one.in_use = true;
    const std::size_t before = one.length;
    if (length <= before) return;
    one.length = length;
    arena_.make_writable(which, before, length - before, stream_);
    const std::size_t step = granule() / 4;
    for (std::size_t at = before; at + stamp_bytes <= length;
         at = align_up(at + stamp_bytes, step)) {
      const auto seed = static_cast<std::uint32_t>(generator_());
      for (std::size_t plane = 0; plane < options_.planes; ++plane)
        write_bytes(stream_, advance(arena_.pointer(which, plane), at),
                    pattern(stamp_bytes, seed + static_cast<std::uint32_t>(plane)));
      one.stamps[at] = seed;
    }
  }

  void share(std::size_t from, std::size_t to) {
    if (!shares_ || from == to || !slots_[from].in_use || slots_[to].length != 0) return;
    const std::size_t bytes = below(generator_, slots_[from].length + 1);
    arena_.share_prefix(from, sizes{to}, bytes, stream_);
    slots_[to] = {true, bytes, {}};
    for (const auto& [at, seed] : slots_[from].stamps)
      if (at + stamp_bytes <= bytes) slots_[to].stamps[at] = seed;
  }

  void check() {
    stream_.synchronize();
    for (std::size_t which = 0; which < slots_.size(); ++which) {
      model& one = slots_[which];
      CAPTURE(which);
      // A call that failed behind its commit.
      if (fails_) {
        one.in_use = arena_.in_use(which);
        one.length = arena_.length(which);
      }
      REQUIRE(arena_.in_use(which) == one.in_use);
      REQUIRE(arena_.length(which) == one.length);
      if (tag_.is_asleep()) continue;
      for (const auto& [at, seed] : one.stamps)
        for (std::size_t plane = 0; plane < options_.planes; ++plane)
          REQUIRE(read_bytes(stream_, advance(arena_.pointer(which, plane), at), stamp_bytes) ==
                  pattern(stamp_bytes, seed + static_cast<std::uint32_t>(plane)));
    }
    if (fails_) return;
    chunk_cache::shared().trim();
    drain_retired_memory();
    const slot_arena_statistics now = arena_.statistics();
    const std::size_t others = cache_.statistics().bytes + (hog_ ? hog_->bytes() : 0) + outside_;
    REQUIRE(now.held_bytes + others == hipvmm_host_device_bytes(0));
  }

  std::mt19937& generator_;
  bool fails_;
  std::size_t last_ = 0;
  std::size_t outside_;
  hipvmm::stream stream_{first_device};
  memory_tag tag_{"random"};
  chunk_cache cache_{std::size_t{1} << 40};
  slot_arena_options options_;
  slot_arena arena_;
  std::vector<model> slots_;
  std::optional<physical_chunk> hog_;
  bool shares_ = false;
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("slot_arena: random calls with budgets, caches, sleep and full devices") {
  // HIPVMM_TEST_ROUNDS: more of them, by hand.
  const char* const rounds = std::getenv("HIPVMM_TEST_ROUNDS");
  const std::uint32_t seeds =
      rounds != nullptr ? static_cast<std::uint32_t>(std::strtoul(rounds, nullptr, 10)) : 8;
  bool fails = false;
  SUBCASE("in order") {}
  SUBCASE("with HIP calls that fail") { fails = true; }
  CAPTURE(fails);
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937 generator{seed};
    chunk_cache::shared().trim();
    drain_retired_memory();
    const hipvmm_host_counters outside = live_objects();
    const std::size_t bytes_outside = hipvmm_host_device_bytes(0);
    {
      random_arena subject{generator, fails};
      for (int step = 0; step < 40; ++step) {
        CAPTURE(step);
        subject.step();
      }
      subject.end();
    }
    chunk_cache::shared().trim();
    drain_retired_memory();
    if (fails) continue;
    REQUIRE(live_objects() == outside);
    REQUIRE(hipvmm_host_device_bytes(0) == bytes_outside);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
