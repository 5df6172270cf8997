// SPDX-License-Identifier: MIT
#include "c/configured_budget.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::c {
namespace {

struct configured_budgets {
  std::mutex mutex;
  std::map<int, memory_budget> joined;
  const detail::owner_process process;

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
  const detail::callbacks_wait until_unlocked;  // callbacks may make pools
  const std::lock_guard lock{all.mutex};
  if (all.joined.count(device.ordinal()) != 0) return;
  all.joined.emplace(device.ordinal(), memory_budget{device, named->name, named->bytes});
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

}  // namespace hipvmm::c
