// SPDX-License-Identifier: MIT
// The order in which holders release idle memory, the rest that they keep, and failures meanwhile.
#include <hipvmm/vmm/idle/idle_memory.hpp>

#include <unistd.h>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "container/container_test.hpp"
#include "container/evictable/evictable_layer.hpp"
#include "support/host/host_test.hpp"
#include "support/region/prefetch_levels.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::test {
namespace {

using bytes_vector = growable_device_vector<char>;

constexpr const char* device_of_64 = "HIPVMM_HOST_MEMORY=64MiB";

bool pins_by_addresses() { return capability_of(first_device).needs(quirk::re_reserve); }

/// The bytes of the first device that HIP counts in use.
std::size_t bytes_in_use() {
  release_idle_memory();
  return first_device.total_memory() - first_device.free_memory();
}

std::unique_ptr<mr::vmm_pool_resource> pool_with(std::size_t idle, int priority,
                                                 std::size_t floor = 0,
                                                 std::size_t largest_chunk = 0) {
  const mr::pool_options options{
      .floor_bytes = floor, .priority = priority, .largest_chunk = largest_chunk};
  auto made = std::make_unique<mr::vmm_pool_resource>(first_device, options);
  const stream stream;
  made->deallocate(stream, made->allocate(stream, idle), idle);
  stream.synchronize();
  return made;
}

/// Slots of 8 MiB, `count` of which were used.
std::unique_ptr<slot_arena> arena_with(std::size_t count, int priority, std::size_t floor = 0,
                                       chunk_cache* cache = nullptr) {
  auto made =
      std::make_unique<slot_arena>(first_device, slot_arena_options{.slots = 8,
                                                                    .bytes_per_slot = 8 * MiB,
                                                                    .floor_bytes = floor,
                                                                    .priority = priority,
                                                                    .prefetch_blocks = 0,
                                                                    .cache = cache});
  const stream stream;
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < count; ++i) {
    used.push_back(made->acquire(stream));
    made->commit(std::vector{used.back()}, std::vector{8 * MiB}, stream);
  }
  for (const std::size_t each : used) made->release(each, stream);
  stream.synchronize();
  return made;
}

/// A vector of 2 MiB with 16 MiB ready behind them.
std::unique_ptr<bytes_vector> prepared_vector(prefetch_level how) {
  release_idle_memory();
  const growth_options options{.step_limit = 0, .grow_ahead = {how, 8 * MiB, 16 * MiB}};
  auto made = std::make_unique<bytes_vector>(first_device, options);
  made->resize_uninitialized(2 * MiB);
  detail::wait_for_background_tasks();
  return made;
}

TEST_SUITE_BEGIN("needs virtual memory");

HIPVMM_TEST_CASE_IN("idle givers: of two pools the one of lower priority gives first",
                    {device_of_64}) {
  const auto first = pool_with(24 * MiB, 1);
  const auto second = pool_with(24 * MiB, 0);
  bytes_vector vector{first_device};
  vector.resize_uninitialized(32 * MiB);
  CHECK(first->usage().reserved_current == 24 * MiB);
  CHECK(second->usage().reserved_current <= 8 * MiB);
  CHECK(bytes_in_use() ==
        vector.capacity() + first->usage().reserved_current + second->usage().reserved_current);
}

HIPVMM_TEST_CASE_IN("idle givers: priority goes before the kind of the holder", {device_of_64}) {
  const auto arena = arena_with(3, 1);
  const auto pool = pool_with(24 * MiB, 0);
  bytes_vector vector{first_device};
  vector.resize_uninitialized(32 * MiB);
  CHECK(arena->statistics().held_bytes == 24 * MiB);
  CHECK(pool->usage().reserved_current <= 8 * MiB);
}

HIPVMM_TEST_CASE_IN("idle givers: a pool keeps its floor", {device_of_64}) {
  const auto pool = pool_with(48 * MiB, 0, 16 * MiB);
  bytes_vector vector{first_device};
  CHECK_THROWS_AS(vector.resize_uninitialized(50 * MiB), out_of_memory);
  CHECK(pool->usage().reserved_current >= 16 * MiB);
  CHECK(bytes_in_use() == pool->usage().reserved_current);
}

HIPVMM_TEST_CASE_IN("idle givers: an arena keeps its floor", {device_of_64}) {
  const auto arena = arena_with(6, 0, 15 * MiB);
  bytes_vector vector{first_device};
  CHECK_THROWS_AS(vector.resize_uninitialized(50 * MiB), out_of_memory);
  CHECK(arena->statistics().held_bytes >= 15 * MiB);
  vector.resize_uninitialized(46 * MiB);
  CHECK(arena->statistics().held_bytes >= 15 * MiB);
  CHECK(bytes_in_use() == vector.capacity() + arena->statistics().held_bytes);
}

/// Gives from an arena of 16 MiB with a floor, beside 16 MiB in the program's cache, which the
/// addresses of another region may pin.
void gives_beside_cache(std::size_t floor, std::size_t wanted, std::size_t left) {
  chunk_cache cache{64 * MiB};
  const auto arena = arena_with(2, 0, floor, &cache);
  region other{
      first_device, 16 * MiB, {.cache = &cache, .when_empty = empty_policy::keeps_addresses}};
  other.commit(0, 16 * MiB, 2 * MiB);
  static_cast<void>(other.decommit(0, 16 * MiB));
  REQUIRE(arena->statistics().held_bytes == 16 * MiB);
  REQUIRE(cache.statistics().bytes == 16 * MiB);
  const call_counter unmapped{"hipMemUnmap"};
  detail::give_idle_memory({.device = first_device, .bytes = wanted});
  CHECK(arena->statistics().held_bytes == left);
  CHECK((pins_by_addresses() ? unmapped.count() : cache.statistics().bytes) == 0);
}

HIPVMM_TEST_CASE_IN("idle givers: the floor of an arena protects nothing of the program's cache",
                    {device_of_64}) {
  gives_beside_cache(32 * MiB, 16 * MiB, 16 * MiB);
}

HIPVMM_TEST_CASE_IN("idle givers: an arena keeps its floor beside a cache that cannot give",
                    {device_of_64}) {
  gives_beside_cache(16 * MiB, 32 * MiB, 16 * MiB);
}

HIPVMM_TEST_CASE_IN("idle givers: a vector gives the chunk that is prepared", {device_of_64}) {
  for (const prefetch_level how : both_ways) {
    const auto prepared = prepared_vector(how);
    REQUIRE(prepared->statistics().ahead_bytes == 16 * MiB);
    bytes_vector vector{first_device};
    // The mapped chunk has addresses that may hold its memory.
    if (!pins_by_addresses() || how == prefetch_level::created) {
      vector.resize_uninitialized(62 * MiB);
      CHECK(prepared->statistics().ahead_bytes == 0);
      CHECK(bytes_in_use() == 64 * MiB);
      vector.clear();
      vector.shrink_to_fit(stream{});
    }
    prepared->resize_uninitialized(32 * MiB);
    detail::wait_for_background_tasks();
    CHECK(prepared->size() == 32 * MiB);
    CHECK(bytes_in_use() == prepared->capacity() + prepared->statistics().ahead_bytes);
  }
}

HIPVMM_TEST_CASE_IN("idle givers: a prepared chunk serves a request of its size", {device_of_64}) {
  for (const prefetch_level how : both_ways) {
    const idle_memory_statistics before = idle_memory();
    const auto prepared = prepared_vector(how);
    REQUIRE(prepared->statistics().ahead_bytes == 16 * MiB);
    const growth_options exact{.step_limit = 0};
    bytes_vector other{first_device, exact};
    other.resize_uninitialized(40 * MiB);
    bytes_vector vector{first_device, exact};
    vector.resize_uninitialized(16 * MiB);
    const idle_memory_statistics after = idle_memory();
    const std::size_t moved = after.moved_bytes - before.moved_bytes;
    CHECK(moved + after.released_bytes - before.released_bytes == 16 * MiB);
    if (pins_by_addresses()) CHECK(moved == 16 * MiB);
    CHECK(prepared->statistics().ahead_bytes == 0);
    CHECK(bytes_in_use() == 58 * MiB);
  }
}

HIPVMM_TEST_CASE_IN("idle givers: a vector that grows, shrinks and ends while it gives",
                    {device_of_64}) {
  std::atomic<bool> ends{false};
  std::thread other{[&] {
    const stream stream;
    while (!ends) {
      bytes_vector vector{first_device};
      try {
        vector.resize_uninitialized(56 * MiB);
      } catch (const out_of_memory&) {
      }
    }
  }};
  const stream stream;
  for (int round = 0; round < 100; ++round) {
    const auto prepared =
        prepared_vector(round % 2 == 0 ? prefetch_level::mapped : prefetch_level::created);
    try {
      for (std::size_t size = 4 * MiB; size <= 32 * MiB; size += 4 * MiB)
        prepared->resize_uninitialized(size);
      prepared->resize_uninitialized(4 * MiB);
      prepared->shrink_to_fit(stream);
    } catch (const out_of_memory&) {
    }
    CHECK(prepared->statistics().ahead_bytes <= 18 * MiB);
  }
  ends = true;
  other.join();
}

/// A holder that does `give` when it is asked.
class asked_holder final : detail::idle_holder {
 public:
  asked_holder(std::function<std::size_t(std::size_t)> give, detail::idle_membership::price cost)
      : give_{std::move(give)}, membership_{*this, first_device, cost} {}
  [[nodiscard]] detail::idle_membership& membership() noexcept { return membership_; }

 private:
  [[nodiscard]] detail::given_memory give_idle(const detail::idle_request& wanted) override {
    return {.released = give_(wanted.bytes)};
  }
  [[nodiscard]] std::size_t idle_bytes() override { return 0; }

  std::function<std::size_t(std::size_t)> give_;
  detail::idle_membership membership_;
};

TEST_CASE("idle givers: a holder that was in use is asked once more before the refusal") {
  asked_holder busy{[](std::size_t bytes) { return bytes; },
                    detail::idle_membership::price::prepared};
  std::atomic<bool> is_locked{false};
  std::atomic<bool> may_end{false};
  std::thread user{[&] {
    const detail::idle_membership::lock in_use{busy.membership()};
    is_locked = true;
    while (!may_end) std::this_thread::yield();
  }};
  while (!is_locked) std::this_thread::yield();
  // Asked after the busy one was passed over.
  const asked_holder other{[&](std::size_t) -> std::size_t {
                             if (!may_end.exchange(true)) user.join();
                             return 0;
                           },
                           detail::idle_membership::price::pooled};
  const std::uint64_t asked_before = idle_memory().asked;
  const out_of_memory shortage{exhausted::device_memory, first_device.ordinal(), 2 * MiB, 0, ""};
  CHECK(detail::ask_idle_holders(shortage, {}));
  CHECK(idle_memory().asked == asked_before + 1);
}

TEST_CASE("idle givers: a use of a holder that has ended changes nothing") {
  asked_holder ended{[](std::size_t) -> std::size_t { return 0; },
                     detail::idle_membership::price::spare};
  ended.membership().end();
  ended.membership().note_use();
}

HIPVMM_TEST_CASE_IN("idle givers: a tag that wakes asks once for all of its members",
                    {device_of_64}) {
  if (!can_sleep()) return;
  const memory_tag tag;
  const stream stream;
  std::vector<std::unique_ptr<region>> regions;
  for (int i = 0; i < 6; ++i) {
    regions.push_back(std::make_unique<region>(first_device, 4 * MiB, tagged_by(tag)));
    regions.back()->commit(0, 4 * MiB, 2 * MiB);
    write_tag(*regions.back(), 0, 7, stream);
  }
  mr::vmm_pool_resource pool{first_device, {.tag = tag}};
  void* const block = pool.allocate(stream, 4 * MiB);
  fill_async(stream, block, 8, 4 * MiB);
  slot_arena arena{first_device,
                   {.slots = 1, .bytes_per_slot = 4 * MiB, .prefetch_blocks = 0, .tag = tag}};
  const std::size_t slot = arena.acquire(stream);
  arena.commit(std::vector{slot}, std::vector{4 * MiB}, stream);
  fill_async(stream, arena.pointer(slot), 9, 4 * MiB);
  suspend(tag, keep::contents);
  const auto idle = pool_with(48 * MiB, 0, 0, 2 * MiB);
  const idle_memory_statistics before = idle_memory();
  CHECK(resume(tag) >= 32 * MiB);
  CHECK(idle_memory().asked == before.asked + 1);
  for (const auto& each : regions) CHECK(has_tag(*each, 0, 7, stream));
  CHECK(read_bytes(stream, block, 4 * MiB) == std::vector<unsigned char>(4 * MiB, 8));
  CHECK(read_bytes(stream, arena.pointer(slot), 4 * MiB) == std::vector<unsigned char>(4 * MiB, 9));
  pool.deallocate(stream, block, 4 * MiB);
}

/// A budget of this process alone: on a small device a release that fails costs its memory for
/// ever.
class sweep_budget {
 public:
  ~sweep_budget() {
    joined_.reset();
    memory_budget::remove(name_, first_device.uuid());
  }
  sweep_budget& operator=(sweep_budget&&) = delete;

  /// Leaves room for 64 MiB. Pre: no object has memory. A refused free of addresses has kept some.
  void begin() {
    lost_ = counted();
    joined_->set_limit(64 * MiB + lost_);
  }
  /// Whether it counts `held` bytes and those from before begin(). HIP counts chunks too whose
  /// release failed.
  [[nodiscard]] bool counts(std::size_t held) const { return counted() == lost_ + held; }

 private:
  [[nodiscard]] std::size_t counted() const {
    release_idle_memory();
    return joined_->bytes();
  }

  const std::string name_ = "givers-" + std::to_string(::getpid());
  std::optional<memory_budget> joined_{std::in_place, first_device, name_, 64 * MiB};
  std::size_t lost_ = 0;
};

/// Sweeps a request of `bytes` that gets memory of the giver of `Subject`.
template <typename Subject>
void sweep_giver(const char* name, std::size_t bytes) {
  sweep_budget limit;
  fault_sweep{name, after_failure::capacity}.run(
      [&] {
        limit.begin();
        return std::make_unique<Subject>();
      },
      [bytes](auto& subject) { subject.vector.resize_uninitialized(bytes); },
      [&](auto& subject) {
        CHECK(subject.vector.size() == 0);
        if (limit.counts(subject.held()))
          subject.vector.resize_uninitialized(bytes);
        else
          CHECK(pins_by_addresses());
      },
      [&](auto& subject) {
        CHECK(subject.vector.size() == bytes);
        const bool is_exact = limit.counts(subject.held() + subject.vector.capacity());
        CHECK((is_exact || pins_by_addresses()));
      });
}

HIPVMM_TEST_CASE_IN("idle givers: any call of HIP may fail while a pool gives",
                    {"HIPVMM_HOST_MEMORY=4GiB"}) {
  struct short_of_pool {
    hipvmm::stream stream;
    std::unique_ptr<mr::vmm_pool_resource> pool = pool_with(48 * MiB, 0);
    bytes_vector vector{first_device};
    short_of_pool() { chunk_cache::shared().trim(); }
    [[nodiscard]] std::size_t held() const { return pool->usage().reserved_current; }
  };
  sweep_giver<short_of_pool>("a pool gives", 48 * MiB);
}

HIPVMM_TEST_CASE_IN("idle givers: any call of HIP may fail while a vector gives",
                    {"HIPVMM_HOST_MEMORY=4GiB"}) {
  struct short_of_prepared {
    std::unique_ptr<bytes_vector> prepared = prepared_vector(prefetch_level::mapped);
    bytes_vector vector{first_device, growth_options{.step_limit = 0}};
    physical_chunk rest{first_device, 40 * MiB};
    short_of_prepared() { chunk_cache::shared().trim(); }
    [[nodiscard]] std::size_t held() const {
      const std::size_t ahead = prepared->statistics().ahead_bytes;
      CHECK((ahead == 0 || ahead == 16 * MiB));
      return prepared->capacity() + ahead + rest.bytes();
    }
  };
  sweep_giver<short_of_prepared>("a vector gives", 16 * MiB);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
