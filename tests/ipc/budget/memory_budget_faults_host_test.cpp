// SPDX-License-Identifier: MIT
// Budgets where calls of HIP fail.
#include <doctest/doctest.h>

#include <cstddef>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "ipc/budget/budget_folder.hpp"
#include "support/devices.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("memory_budget: chunks that HIP did not create do not count") {
  const budget_folder folder;
  drain_retired_memory();
  chunk_cache::shared().trim();
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "faults", 64 * unit};
  fault_sweep{"region::commit with a budget"}.run(
      [&] {
        return region{first_device, 8 * unit};
      },
      [&](region& memory) { memory.commit(0, unit); },
      [&](region& memory) { CHECK(memory.committed_bytes() == 0); },
      [&](region& memory) { CHECK(budget.bytes() >= memory.committed_bytes()); });
  drain_retired_memory();
  chunk_cache::shared().trim();
  CHECK(budget.bytes() == 0);
}

TEST_CASE("memory_budget: the constructor leaves nothing where a call of HIP fails") {
  const budget_folder folder;
  fault_sweep{"memory_budget"}.run([&] { const memory_budget budget{first_device, "made", 1}; });
  const memory_budget budget{first_device, "made", 1};
  CHECK(memory_budget::all().at(0).holders.size() == 1);
}

}  // namespace
}  // namespace hipvmm::test
