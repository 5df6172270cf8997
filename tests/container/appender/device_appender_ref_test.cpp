// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_appender_ref.hpp>

#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

static_assert(std::is_trivially_copyable_v<device_appender_ref<int>>);

constexpr std::uint32_t untouched = 0xFFFF'FFFF;

/// Slots in host memory, and as many more behind them that nobody may touch.
struct slots_on_host {
  std::vector<std::uint32_t> memory;
  append_counters counters{};
  device_appender_ref<std::uint32_t> ref;

  explicit slots_on_host(std::size_t capacity)
      : memory(2 * capacity + 64, untouched), ref{memory.data(), capacity, &counters} {}

  /// The written elements, which must be dense from the first slot on.
  [[nodiscard]] std::vector<std::uint32_t> written() const {
    const auto end = std::find(memory.begin(), memory.end(), untouched);
    CHECK(std::all_of(end, memory.end(), [](std::uint32_t value) { return value == untouched; }));
    CHECK(static_cast<std::size_t>(end - memory.begin()) <= ref.capacity());
    return {memory.begin(), end};
  }
};

constexpr std::uint32_t threads = 8;
constexpr std::uint32_t per_thread = 2000;

TEST_CASE("device_appender_ref: threads that append get a slot each") {
  slots_on_host subject{threads * per_thread};
  std::atomic<std::uint32_t> missed = 0;
  in_threads(threads, [&](std::uint32_t thread) {
    for (std::uint32_t i = 0; i < per_thread; ++i)
      if (!subject.ref.push(thread * per_thread + i)) ++missed;
  });
  CHECK(missed == 0);
  std::vector<std::uint32_t> found = subject.written();
  std::sort(found.begin(), found.end());
  std::vector<std::uint32_t> expected(threads * per_thread);
  std::iota(expected.begin(), expected.end(), 0U);
  CHECK(found == expected);
  CHECK(subject.counters.taken == threads * per_thread);
  CHECK(subject.counters.unused == 0);
}

TEST_CASE("device_appender_ref: what does not fit is counted and told, and not written") {
  constexpr std::size_t capacity = 10'000;
  slots_on_host subject{capacity};
  std::vector<std::vector<std::uint32_t>> told(threads);
  in_threads(threads, [&](std::uint32_t thread) {
    for (std::uint32_t i = 0; i < per_thread; ++i) {
      const std::uint32_t value = thread * per_thread + i;
      if (subject.ref.push(value)) told[thread].push_back(value);
    }
  });
  std::vector<std::uint32_t> expected;
  for (const auto& values : told) expected.insert(expected.end(), values.begin(), values.end());
  std::vector<std::uint32_t> found = subject.written();
  std::sort(found.begin(), found.end());
  CHECK(found == expected);
  CHECK(found.size() == capacity);
  CHECK(subject.counters.taken == threads * per_thread);
}

TEST_CASE("device_appender_ref: blocks of several threads lie whole and without a gap") {
  constexpr std::size_t capacity = 20'000;
  slots_on_host subject{capacity};
  std::vector<std::uint32_t> seeds(threads);
  std::mt19937 generator = seeded_generator();
  for (std::uint32_t& seed : seeds) seed = static_cast<std::uint32_t>(generator());
  std::vector<std::uint64_t> appended(threads);
  std::vector<std::uint64_t> asked(threads);
  in_threads(threads, [&](std::uint32_t thread) {
    std::mt19937 own{seeds[thread]};
    // Each block is its length, then its writer as often as that.
    for (int block = 0; block < 1000; ++block) {
      std::vector<std::uint32_t> values(1 + below(own, 9), thread);
      values[0] = static_cast<std::uint32_t>(values.size());
      asked[thread] += values.size();
      if (subject.ref.push(values.data(), values.size())) appended[thread] += values.size();
    }
  });

  const std::vector<std::uint32_t> found = subject.written();
  std::vector<std::uint64_t> lengths(threads);
  for (std::size_t start = 0; start < found.size();) {
    const std::size_t length = found[start];
    REQUIRE(length <= found.size() - start);
    const std::uint32_t writer = length == 1 ? 0 : found[start + 1];
    CHECK(std::count(found.begin() + static_cast<std::ptrdiff_t>(start) + 1,
                     found.begin() + static_cast<std::ptrdiff_t>(start + length),
                     writer) == static_cast<std::ptrdiff_t>(length) - 1);
    if (length > 1) lengths[writer] += length;
    start += length;
  }
  CHECK(found.size() == std::accumulate(appended.begin(), appended.end(), std::uint64_t{0}));
  for (std::uint32_t thread = 0; thread < threads; ++thread)
    CHECK(lengths[thread] <= appended[thread]);
  CHECK(subject.counters.taken == std::accumulate(asked.begin(), asked.end(), std::uint64_t{0}));
  CHECK(subject.counters.taken > capacity);
  CHECK(found.size() == capacity - subject.counters.unused);
}

TEST_CASE("device_appender_ref: a block that is too long leaves the slots before the end unused") {
  slots_on_host subject{10};
  const std::vector<std::uint32_t> values(8, 1);
  CHECK(subject.ref.push(values.data(), 8));
  CHECK_FALSE(subject.ref.push(values.data(), 3));
  CHECK_FALSE(subject.ref.push(values.data(), 1));
  CHECK_FALSE(subject.ref.push(1));
  CHECK(subject.counters.taken == 13);
  CHECK(subject.counters.unused == 2);
  CHECK(subject.written().size() == 8);
}

TEST_CASE("device_appender_ref: a block that ends at the end leaves nothing unused") {
  slots_on_host subject{10};
  CHECK(subject.ref.slots(4) == subject.ref.base());
  CHECK(subject.ref.slots(6) == subject.ref.base() + 4);
  CHECK(subject.ref.slots(1) == nullptr);
  CHECK(subject.counters.taken == 11);
  CHECK(subject.counters.unused == 0);
}

TEST_CASE("device_appender_ref: a block of nothing takes nothing and is never missed") {
  slots_on_host subject{1};
  CHECK(subject.ref.push(nullptr, 0));
  CHECK(subject.ref.push(1));
  CHECK_FALSE(subject.ref.push(2));
  CHECK(subject.ref.push(nullptr, 0));
  CHECK(subject.counters.taken == 2);
  CHECK(subject.counters.unused == 0);
}

TEST_CASE("device_appender_ref: a block longer than any memory does not fit") {
  slots_on_host subject{10};
  CHECK(subject.ref.slots(4) != nullptr);
  CHECK(subject.ref.slots(~std::size_t{0} - 100) == nullptr);
  CHECK(subject.counters.unused == 6);
}

TEST_CASE("device_appender_ref: without room everything is missed") {
  append_counters counters{};
  const device_appender_ref<int> ref{nullptr, 0, &counters};
  CHECK(ref.slot() == nullptr);
  CHECK_FALSE(ref.push(1));
  CHECK(counters.taken == 2);
  CHECK(counters.unused == 0);
}

}  // namespace
}  // namespace hipvmm::test
