// SPDX-License-Identifier: MIT
// exchange() if HIP fails on one rank, and its cost in calls and memory.
#include "contract/rank_errors.hpp"
#include "ipc/ranks/run_ranks.hpp"
#include "support/host/host_provider.hpp"
#include "support/region/shared_cache.hpp"

namespace hipvmm::test {
namespace {

using contract::check_rank_error;

using element = std::uint32_t;
using elements = std::vector<element>;

void wait_for_all(communicator& ranks) {
  const char mine = 0;
  std::vector<char> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&mine, all.data(), sizeof(mine));
}

/// Threads of the library, which release memory, have nothing left to do then.

/// Ranks that exchange two arrays twice, with one call of HIP failing.
struct exchange_sweep {
  static constexpr int size = 3;
  static constexpr int steps = 2;
  std::vector<device_ref> devices;

  void run() const {
    std::uint64_t nth = 1;
    while (strikes(nth)) ++nth;
    CHECK(nth > 10);
  }

 private:
  using outcomes = std::array<std::array<bool, steps>, size>;

  /// Whether the call that is to fail was made.
  bool strikes(std::uint64_t nth) const {
    REQUIRE(nth < 2000);
    CAPTURE(nth);
    release_idle_memory();
    const hipvmm_host_counters before = live_objects();
    const error_recorder reported;
    std::optional<planned_fault> fault;
    bool struck = false;
    outcomes worked{};
    run_ranks(size, devices, [&](thread_rank& one) {
      const int rank = one.ranks.rank();
      growable_device_vector<element> source{one.ranks.device()};
      growable_device_vector<element> out{one.ranks.device()};
      grant_to_all(out, devices);
      source.append({1, 2, 3}, one.stream);
      growable_device_vector<char> name_source{one.ranks.device()};
      growable_device_vector<char> names{one.ranks.device()};
      grant_to_all(names, devices);
      name_source.append({'a', 'b', 'c'}, one.stream);
      one.stream.synchronize();
      wait_for_all(one.ranks);
      if (rank == 0)
        fault.emplace(nullptr, nth, nth % 2 == 0 ? hipErrorOutOfMemory : hipErrorOperatingSystem);
      wait_for_all(one.ranks);
      elements model;
      for (int step = 0; step < steps; ++step) {
        try {
          exchange({{source, out}, {name_source, names}}, {1, 1, 1}, one.ranks, one.stream);
          model.insert(model.end(), size, static_cast<element>(rank + 1));
          worked[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)] = true;
        } catch (const rank_error& failure) {
          CHECK(failure.reason() == rank_failure::remote);
          CHECK(failure.rank() != rank);
        } catch (const std::exception&) {
        }
        CHECK(out.size() == model.size());
        CHECK(names.size() == model.size());
      }
      wait_for_all(one.ranks);
      if (rank == 0) {
        struck = fault->end();
        fault.reset();
      }
      wait_for_all(one.ranks);
      CHECK(out.copy_to_host(one.stream) == model);
      CHECK(names.copy_to_host(one.stream) ==
            std::vector<char>(names.size(), static_cast<char>('a' + rank)));
    });
    for (const auto& each : worked) CHECK(each == worked[0]);
    CHECK((worked[0][0] || worked[0][1]));
    release_idle_memory();
    if (reported.count() == 0) CHECK(live_objects() == before);
    static_cast<void>(hipGetLastError());
    return struck;
  }
};

TEST_CASE("exchange: each HIP call that fails fails all arrays on all ranks or none; they go on") {
  // Of three ranks two share a device.
  exchange_sweep{{first_device, second_device}}.run();
}

TEST_CASE("exchange: a rank without memory fails all ranks, which give theirs back") {
  release_idle_memory();
  growable_device_vector<char> filler{second_device};
  const stream filling{second_device};
  filler.resize_uninitialized(second_device.free_memory() - 32 * MiB);
  run_ranks(2, {first_device, second_device}, [&](thread_rank& one) {
    const std::size_t count = 40 * MiB;
    growable_device_vector<char> source{one.ranks.device()};
    growable_device_vector<char> out{one.ranks.device()};
    grant_to_all(out, {first_device, second_device});
    if (one.ranks.rank() == 0) source.resize(count, one.stream);
    const std::vector<std::size_t> half{count / 2, count / 2};
    const std::vector<std::size_t> nothing{0, 0};
    const std::vector<std::size_t> most{MiB, count - MiB};
    const auto run = [&](const std::vector<std::size_t>& counts) {
      exchange(source, one.ranks.rank() == 0 ? counts : nothing, out, one.ranks, one.stream);
    };
    if (one.ranks.rank() == 1) {
      CHECK_THROWS_AS(run(most), out_of_memory);
    } else {
      const std::string told = check_rank_error(rank_failure::remote, 1, [&] { run(most); });
      INFO(told);
      CHECK(told.find(" free, and 40.00 MiB were requested") != std::string::npos);
    }
    CHECK(out.empty());
    if (!on_fallback()) CHECK(out.capacity() == 0);
    run(half);
    CHECK(out.size() == count / 2);
  });
}

TEST_CASE("exchange: makes a copy for each pair of ranks and waits for no work") {
  release_idle_memory();
  run_ranks(1, {first_device}, [](thread_rank& one) {
    growable_device_vector<element> source{first_device};
    growable_device_vector<element> out{first_device};
    source.append({1, 2, 3}, one.stream);
    const calls_of copies{copying_functions};
    const calls_of waits{waiting_functions};
    exchange(source, {3}, out, one.ranks, one.stream);
    CHECK(copies.count() == 1);
    if (!on_fallback()) CHECK(waits.count() == 0);
  });
  release_idle_memory();
  std::optional<calls_of<copying_functions.size()>> copies;
  std::optional<calls_of<waiting_functions.size()>> waits;
  run_ranks(3, {first_device}, [&](thread_rank& one) {
    growable_device_vector<element> source{first_device};
    growable_device_vector<element> out{first_device};
    source.append({1, 2, 3}, one.stream);
    wait_for_all(one.ranks);
    if (one.ranks.rank() == 0) {
      copies.emplace(copying_functions);
      waits.emplace(waiting_functions);
    }
    wait_for_all(one.ranks);
    // Each has all for one other, and nothing for the rest.
    std::vector<std::size_t> counts(3);
    counts[static_cast<std::size_t>(one.ranks.rank() + 1) % 3] = 3;
    exchange(source, counts, out, one.ranks, one.stream);
    wait_for_all(one.ranks);
    if (one.ranks.rank() == 0) {
      CHECK(copies->count() == 3);
      if (!on_fallback()) CHECK(waits->count() == 0);
    }
    wait_for_all(one.ranks);
    CHECK(out.statistics().growth_steps == 1);
    CHECK(out.statistics().copied_bytes == 0);
  });
}

TEST_CASE("exchange: most memory held is what was sent and what came" * needs_virtual_memory) {
  release_idle_memory();
  const std::size_t before = hipvmm_host_device_bytes(first_device.ordinal());
  hipvmm_host_reset_peak_device_bytes(first_device.ordinal());
  const std::size_t count = 8 * MiB;
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    growable_device_vector<char> source{first_device};
    growable_device_vector<char> out{first_device};
    source.resize_uninitialized(count);
    // Rank 0 gets three quarters from each.
    exchange(source, {count / 4 * 3, count / 4}, out, one.ranks, one.stream);
    CHECK(out.capacity() == out.size());
    wait_for_all(one.ranks);
  });
  const std::size_t peak = hipvmm_host_peak_device_bytes(first_device.ordinal()) - before;
  CHECK(peak * 20 <= 4 * count * 21);
}

}  // namespace
}  // namespace hipvmm::test
