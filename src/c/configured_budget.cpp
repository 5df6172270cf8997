// SPDX-License-Identifier: MIT
#include "c/configured_budget.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "core/process_mark.hpp"

namespace hipvmm::c {
namespace {

// For work that still uses free memory. Others that are asked do not wait longer for their turn.
constexpr std::chrono::milliseconds patience{50};

/// The pools of the process that a trim asks. Its lock is held while they release memory, so that
/// none ends meanwhile.
struct trimmed_pools {
  std::mutex mutex;
  std::vector<mr::vmm_pool_resource*> pools;
  const detail::process_mark process;

  // Never destroyed, for destructors of a program may still end pools.
  static trimmed_pools& shared() {
    static trimmed_pools& made = *new trimmed_pools;
    return made;
  }
  void trim(device_ref device, std::size_t bytes) {
    const detail::callbacks_wait until_unlocked;  // they may make and end pools
    const std::lock_guard lock{mutex};
    for (mr::vmm_pool_resource* const each : pools) {
      if (bytes == 0) return;
      if (each->device() != device) continue;
      const std::size_t held = each->usage().reserved_current;
      const auto deadline = std::chrono::steady_clock::now() + patience;
      detail::report_exceptions([&] {
        std::size_t released = each->trim_to(held - std::min(held, bytes), deadline);
        // Chunks are released whole.
        if (released < bytes) released += each->trim_to(0, deadline);
        bytes -= std::min(bytes, released);
      });
    }
  }
};

struct configured_budgets {
  std::mutex mutex;
  std::map<int, memory_budget> joined;
  const detail::process_mark process;

  // Never destroyed: the process takes part until it ends.
  static configured_budgets& shared() {
    static configured_budgets& made = *new configured_budgets;
    return made;
  }
};

}  // namespace

void join_configured_budget(device_ref device, const std::optional<named_limit>& named) {
  if (!named) return;
  configured_budgets& all = configured_budgets::shared();
  if (all.process.is_of_parent()) return;
  const detail::callbacks_wait until_unlocked;  // they may make pools
  const std::lock_guard lock{all.mutex};
  if (all.joined.count(device.ordinal()) != 0) return;
  budget_options options;
  options.trim = [device](std::size_t bytes) { trimmed_pools::shared().trim(device, bytes); };
  all.joined.emplace(device.ordinal(),
                     memory_budget{device, named->name, named->bytes, std::move(options)});
}

std::optional<std::size_t> left_of_configured_budget(device_ref device) {
  configured_budgets& all = configured_budgets::shared();
  if (all.process.is_of_parent()) return std::nullopt;
  const std::lock_guard lock{all.mutex};
  const auto found = all.joined.find(device.ordinal());
  if (found == all.joined.end()) return std::nullopt;
  const budget_report now = found->second.report();
  return now.limit - std::min(now.limit, now.bytes);
}

trimmed_pool::trimmed_pool(mr::vmm_pool_resource& pool) : pool_{&pool} {
  trimmed_pools& all = trimmed_pools::shared();
  const std::lock_guard lock{all.mutex};
  all.pools.push_back(pool_);
}

trimmed_pool::~trimmed_pool() {
  trimmed_pools& all = trimmed_pools::shared();
  // A child of fork() has none of the threads that may have had the lock.
  if (all.process.is_of_parent()) return;
  const std::lock_guard lock{all.mutex};
  all.pools.erase(std::remove(all.pools.begin(), all.pools.end(), pool_), all.pools.end());
}

}  // namespace hipvmm::c
