// SPDX-License-Identifier: MIT
// A limit of one owner is never taken for the budget, and estimates of a fitting request count it.
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "ipc/budget/budget_test.hpp"

namespace hipvmm::test {
namespace {

struct budget_of_this_process : budget_folder {
  budget_of_this_process() { release_idle_memory(); }
  ~budget_of_this_process() { release_idle_memory(); }
};

}  // namespace

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(budget_of_this_process,
                  "memory_budget: the limit of an adaptor is no reason to ask for room") {
  const memory_budget budget{first_device, "adaptor", 64 * MiB};
  mr::vmm_pool_resource pool{first_device};
  mr::limiting_resource_adaptor limiting{&pool, 1 * MiB};
  growable_device_vector<char> bytes{first_device, {.resource = &limiting}};
  const auto refused = thrown_by<out_of_memory>([&] { bytes.reserve(2 * MiB); });
  CHECK(refused.resource() == exhausted::limit);
  CHECK(refused.why().owner.find("limiting_resource_adaptor") != std::string::npos);
}

TEST_CASE_FIXTURE(budget_of_this_process, "memory_budget: its refusal reaches through a pool") {
  const memory_budget budget{first_device, "through", 8 * MiB};
  mr::vmm_pool_resource pool{first_device};
  const auto refused = thrown_by<out_of_memory>([&] { return pool.allocate_sync(16 * MiB); });
  CHECK(refused.resource() == exhausted::budget);
  CHECK(refused.why().owner == "budget 'through'");
  CHECK(std::string{refused.what()}.find("other programs") == std::string::npos);
}

TEST_CASE_FIXTURE(budget_of_this_process, "memory_budget: what would fit counts it") {
  const memory_budget budget{first_device, "fits", 32 * MiB};
  const stream used{first_device};
  growable_device_vector<char> held{first_device};
  held.resize(24 * MiB, 'x', used);
  REQUIRE(budget.bytes() == 24 * MiB);
  slot_arena arena{first_device, {.slots = 16, .bytes_per_slot = 8 * MiB}};
  CHECK(arena.slots_that_fit(8 * MiB) == 1);
  CHECK(arena.slots_that_fit(2 * MiB) == 4);
  {
    mr::vmm_pool_resource pool{first_device};
    const std::size_t fits = pool.statistics().largest_possible;
    CHECK(fits == 8 * MiB);
    CHECK_THROWS_AS(static_cast<void>(pool.allocate_sync(fits + 2 * MiB)), out_of_memory);
    pool.deallocate_sync(pool.allocate_sync(fits), fits);
  }
  release_idle_memory();
  const std::vector<std::size_t> slots{arena.acquire(used)};
  arena.commit(slots, std::vector<std::size_t>{8 * MiB}, used);
  CHECK(arena.slots_that_fit(2 * MiB) == 0);
}

// A device that takes chunks of one size only has larger ones elsewhere.
TEST_CASE_FIXTURE(budget_of_this_process, "memory_budget: a pool's chunks fit into a small one") {
  const memory_budget budget{first_device, "small", 6 * MiB};
  mr::vmm_pool_resource pool{first_device};
  CHECK(pool.statistics().largest_possible == 6 * MiB);
  void* const one = pool.allocate_sync(3 * MiB);
  void* const other = pool.allocate_sync(2 * MiB);
  CHECK(budget.bytes() == 6 * MiB);
  pool.deallocate_sync(one, 3 * MiB);
  pool.deallocate_sync(other, 2 * MiB);
}

TEST_SUITE_END();

}  // namespace hipvmm::test
