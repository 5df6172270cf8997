// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "support/device_use.hpp"
#include "support/held_worker.hpp"
#include "support/host/host_test.hpp"
#include "support/region/prefetch_levels.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

using detail::wait_for_background_tasks;

/// Eight granules ahead, once fewer than four are.
growth_options eight_ahead(prefetch_level how) {
  return growth_options{
      .max_bytes = 512 * MiB, .step_limit = 0, .grow_ahead = {how, 8 * MiB, 16 * MiB}};
}

/// Leaves `granules` of 2 MiB free on the first device while it lives.
physical_chunk drain_and_leave_free(std::size_t granules) {
  drain_retired_memory();
  return physical_chunk{first_device, free_memory_at_rest(first_device) - granules * 2 * MiB};
}

TEST_CASE("growable_device_vector: growth that finds its chunk mapped makes no HIP call") {
  vector_of_granules vector{first_device, eight_ahead(prefetch_level::mapped)};
  vector.resize_uninitialized(1);
  wait_for_background_tasks();
  const held_worker held;
  const std::uint64_t before = hipvmm_host_call_count(nullptr);
  vector.resize_uninitialized(2);
  vector.resize_uninitialized(7);
  CHECK(hipvmm_host_call_count(nullptr) == before);
  CHECK(vector.capacity() == 9);
}

TEST_CASE("growable_device_vector: what is ready is used before memory runs out") {
  for (const prefetch_level how : both_ways) {
    vector_of_granules vector{first_device, eight_ahead(how)};
    vector.resize_uninitialized(1);
    wait_for_background_tasks();
    REQUIRE(vector.statistics().ahead_bytes == 16 * MiB);
    const physical_chunk rest = drain_and_leave_free(3);
    CHECK_THROWS_AS(vector.resize_uninitialized(13), out_of_memory);
    CHECK(vector.size() == 1);
    CHECK(vector.capacity() == 1);
    CHECK(vector.statistics().ahead_bytes == 16 * MiB);
    vector.resize_uninitialized(12);
    CHECK(vector.capacity() == 12);
    CHECK(first_device.free_memory() == 0);
  }
}

TEST_CASE("growable_device_vector: what was ordered and has no room is not made by growth") {
  vector_of_granules vector{first_device, eight_ahead(prefetch_level::mapped)};
  const held_worker held;
  vector.resize_uninitialized(1);
  const physical_chunk rest = drain_and_leave_free(7);
  vector.resize_uninitialized(2);
  CHECK(vector.capacity() == 2);
  vector.resize_uninitialized(8);
  CHECK(vector.capacity() == 8);
  CHECK_THROWS_AS(vector.resize_uninitialized(9), out_of_memory);
}

TEST_CASE("growable_device_vector: a preparation that fails is no growth's failure") {
  vector_of_granules vector{first_device, eight_ahead(prefetch_level::mapped)};
  const physical_chunk rest = drain_and_leave_free(5);
  vector.resize_uninitialized(2);
  wait_for_background_tasks();
  CHECK(vector.statistics().ahead_bytes == 0);
  CHECK(vector.statistics().ahead_failures == 1);
  // No growth, no second try.
  const call_counter creations{"hipMemCreate"};
  for (int round = 0; round < 100; ++round) vector.resize_uninitialized(1 + round % 2);
  wait_for_background_tasks();
  CHECK(creations.count() == 0);
  CHECK(vector.statistics().ahead_failures == 1);
  for (std::size_t count = 3; count <= 5; ++count) {
    vector.resize_uninitialized(count);
    wait_for_background_tasks();
    CHECK(vector.statistics().ahead_failures == count - 1);
  }
  CHECK_THROWS_AS(vector.resize_uninitialized(6), out_of_memory);
  CHECK(vector.size() == 5);
  CHECK(vector.statistics().ahead_hits == 0);
}

TEST_CASE("growable_device_vector: memory made ahead goes back with the vector") {
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  for (const prefetch_level how : both_ways) {
    vector_of_granules waited{first_device, eight_ahead(how)};
    waited.resize_uninitialized(3);
    wait_for_background_tasks();
    vector_of_granules begun{first_device, eight_ahead(how)};
    begun.resize_uninitialized(3);
  }
  {
    const held_worker held;
    vector_of_granules queued{first_device, eight_ahead(prefetch_level::mapped)};
    queued.resize_uninitialized(3);
  }
  drain_retired_memory();
  CHECK(live_objects() == before);
}

TEST_CASE("growable_device_vector: memory made ahead does not disturb a capture") {
  HIPVMM_SKIP_UNDER(no_virtual_memory);
  const stream stream;
  vector_of_granules vector{first_device, eight_ahead(prefetch_level::mapped)};
  {
    const held_worker held;
    vector.resize_uninitialized(1);
    REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  }
  wait_for_background_tasks();
  end_capture(stream.get());
  CHECK(vector.statistics().ahead_bytes == 16 * MiB);
}

constexpr std::size_t size_ahead = 1000;

/// A vector with a thousand elements and, if nothing failed, a chunk ready.
struct vector_ahead {
  hipvmm::stream stream;
  growable_device_vector<element12> vector;
  const element12* const data = vector.data();

  explicit vector_ahead(prefetch_level how) : vector{first_device, eight_ahead(how)} {
    vector.grant(second_device, access_right::read);
    vector.append(series<element12>(0, size_ahead), stream);
    stream.synchronize();
    wait_for_background_tasks();
  }
  /// The elements it began with; those that growth added were not written.
  [[nodiscard]] std::vector<element12> contents() const {
    std::vector<element12> result(size_ahead);
    vector.copy_to_host(result.data(), size_ahead, stream);
    return result;
  }
  void check_rights() const {
    CHECK(get_access(vector.data(), second_device) == access_right::read);
    CHECK(get_access(vector.data() + vector.capacity() - 1, second_device) == access_right::read);
  }
};

/// Sweeps growth whose preparations come to their end before the next call. The worker's failures
/// surface nowhere, so an exception means a failure of this thread.
template <typename Operation>
void sweep_ahead(const char* name, Operation operation) {
  { const held_worker started; }
  for (const prefetch_level how : both_ways) {
    fault_sweep{name, after_failure::capacity}.run(
        [how] { return std::make_unique<vector_ahead>(how); },
        [&](auto& subject) {
          operation(subject.vector);
          wait_for_background_tasks();
        },
        [](auto& subject) {
          CHECK(subject.vector.size() == size_ahead);
          CHECK(subject.vector.data() == subject.data);
          CHECK(subject.contents() == series<element12>(0, size_ahead));
          subject.check_rights();
          // It goes on as if nothing had been.
          subject.vector.resize_uninitialized(subject.vector.capacity() + 3'000'000);
          subject.check_rights();
        },
        [](auto& subject) {
          CHECK(subject.contents() == series<element12>(0, size_ahead));
          subject.check_rights();
          subject.vector.resize_uninitialized(subject.vector.capacity() + 3'000'000);
          subject.check_rights();
        });
  }
}

TEST_CASE("growable_device_vector: growth beyond what is ready that fails changes nothing") {
  sweep_ahead("a miss", [](growable_device_vector<element12>& vector) {
    vector.resize_uninitialized(3'000'000);
  });
}

TEST_CASE("growable_device_vector: growth that has more made ready fails for itself alone") {
  sweep_ahead("growth", [](growable_device_vector<element12>& vector) {
    // So much of the ready memory that the next chunk is wanted.
    vector.resize_uninitialized(vector.capacity() + 10 * MiB / sizeof(element12));
  });
}

TEST_CASE("growable_device_vector: the vectors of many threads grow ahead") {
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  std::atomic<int> wrong{0};
  in_threads(std::size_t{4}, [&wrong](std::size_t number) {
    const device_ref device{number % 2 == 0 ? 0 : 1};
    const scoped_device scope{device};
    const stream stream;
    const std::vector<element12> block = series<element12>(number, 40'000);
    for (std::size_t round = 0; round < 4; ++round) {
      growth_options chosen = eight_ahead(both_ways[(number + round) % 2]);
      chosen.grow_ahead.budget_bytes = 4 * MiB;
      chosen.grow_ahead.watermark_bytes = 2 * MiB;
      std::array<growable_device_vector<element12>, 2> vectors{
          growable_device_vector<element12>{device, chosen},
          growable_device_vector<element12>{device, chosen}};
      for (std::size_t step = 0; step < 16; ++step) {
        growable_device_vector<element12>& vector = vectors[step % 2];
        vector.append(block, stream);
        if (step % 5 == 1) swap(vectors[0], vectors[1]);
        if (step % 7 == 3) vector.shrink_to_fit(stream);
        if (step % 6 == 2) vector.grant(device_ref{1 - device.ordinal()}, access_right::read);
      }
      for (const growable_device_vector<element12>& vector : vectors) {
        const std::vector<element12> contents = vector.copy_to_host(stream);
        for (std::size_t at = 0; at < contents.size(); at += block.size())
          if (!std::equal(block.begin(), block.end(), contents.begin() + static_cast<long>(at)))
            ++wrong;
        if (vector.statistics().ahead_failures != 0) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
  drain_retired_memory();
  CHECK(live_objects() == before);
}

/// Grows while the process exits, when the worker has ended.
struct late_grower {
  vector_of_granules vector{first_device, eight_ahead(prefetch_level::mapped)};
  ~late_grower() {
    try {
      vector.resize_uninitialized(1);
      vector.resize_uninitialized(10);
    } catch (...) {
      std::_Exit(1);
    }
    if (vector.capacity() != 10 || vector.statistics().ahead_failures == 0) std::_Exit(2);
  }
};

HIPVMM_TEST_CASE_IN("growable_device_vector: a process may end while memory is made ahead",
                    {"HIPVMM_HOST_LEAKS=1"}) {
  // Until the end of the process, and not while devices are probed.
  static const planned_faults slow{"hipMemCreate delay=20ms"};
  static late_grower late;
  static std::vector<vector_of_granules> ending;
  for (int index = 0; index < 8; ++index)
    ending.emplace_back(first_device, eight_ahead(index % 2 == 0 ? prefetch_level::mapped
                                                                 : prefetch_level::created));
  const call_counter creations{"hipMemCreate"};
  for (vector_of_granules& vector : ending) vector.resize_uninitialized(1);
  // One more than these growths' own: the worker is in it, because the call takes 20 ms.
  while (creations.count() < ending.size() + 1) std::this_thread::yield();
  CHECK(ending.back().capacity() == 1);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
