// SPDX-License-Identifier: MIT
// Budgets while calls of HIP fail.
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "ipc/budget/budget_test.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("memory_budget: chunks that HIP did not create do not count") {
  const budget_folder folder;
  release_idle_memory();
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "faults", 64 * unit};
  fault_sweep{"region::commit with a budget"}.run(
      [&] {
        return region{first_device, 8 * unit};
      },
      [&](region& memory) { memory.commit(0, unit); },
      [&](region& memory) { CHECK(memory.committed_bytes() == 0); },
      [&](region& memory) { CHECK(budget.bytes() >= memory.committed_bytes()); });
  release_idle_memory();
  CHECK(budget.bytes() == 0);
}

TEST_CASE("memory_budget: a holder answers when the work that uses trimmed memory is done") {
  const budget_folder folder;
  release_idle_memory();
  const std::size_t unit = budget_unit();
  blocked_stream work{first_device};
  std::optional<growable_device_vector<char>> used;
  used.emplace(first_device);
  used->resize(unit, 'x', work);
  std::atomic<std::size_t> wanted{0};
  const budget_options options{.trim = [&](std::size_t bytes) {
    used.reset();
    wanted = bytes;
  }};
  const memory_budget budget{first_device, "retired", unit, options};
  const auto file = detail::budget_file::open({"retired", first_device.uuid()}, 0);
  detail::budget_table other{file->shared()};
  REQUIRE(other.join(detail::own_process_identity(), 0, "other"));
  other.set_waiting(unit, std::chrono::steady_clock::now() + std::chrono::seconds{20});
  const std::uint32_t number = other.request();
  CHECK(comes_true([&] { return wanted != 0; }));
  CHECK(wanted == unit);
  CHECK_FALSE(happens([&] { return other.is_answered(number); }));
  // A second request for the same memory has nothing more trimmed.
  wanted = 0;
  const std::uint32_t next = other.request();
  CHECK_FALSE(happens([&] { return wanted != 0 || other.is_answered(next); }));
  work.release();
  CHECK(comes_true([&] { return other.is_answered(next); }));
  CHECK(budget.bytes() == 0);
  CHECK(other.left() == unit);
  other.leave();
}

TEST_CASE("memory_budget: a holder answers when what another thread releases is released") {
  const budget_folder folder;
  release_idle_memory();
  const shared_cache_keeps cache;
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "leaving", unit};
  chunk_cache::shared().recycle(chunk_cache::shared().acquire(first_device, unit));
  const auto file = detail::budget_file::open({"leaving", first_device.uuid()}, 0);
  detail::budget_table other{file->shared()};
  REQUIRE(other.join(detail::own_process_identity(), 0, "other"));
  const planned_faults slow{"hipMemRelease delay=100ms"};
  std::thread releases{[] { chunk_cache::shared().trim(); }};
  CHECK(comes_true([] { return chunk_cache::shared().statistics().bytes == 0; }));
  other.set_waiting(unit, std::chrono::steady_clock::now() + std::chrono::seconds{20});
  const std::uint32_t number = other.request();
  CHECK(comes_true([&] { return other.is_answered(number); }));
  const std::uint64_t left = other.left();
  releases.join();
  CHECK(left == unit);
  other.leave();
}

TEST_CASE("memory_budget: a callback is not asked for what is on its way already") {
  const budget_folder folder;
  release_idle_memory();
  const std::size_t unit = budget_unit();
  region idle{first_device, 8 * unit};
  idle.commit(0, unit);
  blocked_stream work{first_device};
  std::optional<growable_device_vector<char>> used;
  used.emplace(first_device);
  used->resize(unit, 'x', work);
  used.reset();
  std::atomic<std::size_t> wanted{0};
  const budget_options options{.trim = [&](std::size_t bytes) { wanted = bytes; }};
  const memory_budget budget{first_device, "retired", 2 * unit, options};
  const auto file = detail::budget_file::open({"retired", first_device.uuid()}, 0);
  detail::budget_table other{file->shared()};
  REQUIRE(other.join(detail::own_process_identity(), 0, "other"));
  other.set_waiting(2 * unit, std::chrono::steady_clock::now() + std::chrono::seconds{20});
  other.request();
  CHECK(comes_true([&] { return wanted != 0; }));
  CHECK(wanted == unit);
  work.release();
  other.leave();
}

TEST_CASE("memory_budget: memory retired on another device does not keep a holder from trim") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  const budget_folder folder;
  release_idle_memory();
  const std::size_t unit = budget_unit();
  region held{first_device, unit};
  held.commit(0, unit);
  const blocked_stream elsewhere{second_device};
  growable_device_vector<char>{second_device}.resize(unit, 'x', elsewhere);
  std::atomic<std::size_t> wanted{0};
  const budget_options options{.trim = [&](std::size_t bytes) { wanted = bytes; }};
  const memory_budget budget{first_device, "elsewhere", unit, options};
  const auto file = detail::budget_file::open({"elsewhere", first_device.uuid()}, 0);
  detail::budget_table other{file->shared()};
  REQUIRE(other.join(detail::own_process_identity(), 0, "other"));
  other.set_waiting(unit, std::chrono::steady_clock::now() + std::chrono::seconds{20});
  other.request();
  CHECK(comes_true([&] { return wanted == unit; }));
  other.leave();
}

TEST_CASE("memory_budget: the constructor leaves nothing where a call of HIP fails") {
  const budget_folder folder;
  fault_sweep{"memory_budget"}.run([&] { const memory_budget budget{first_device, "made", 1}; });
  const memory_budget budget{first_device, "made", 1};
  CHECK(memory_budget::all().at(0).holders.size() == 1);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
