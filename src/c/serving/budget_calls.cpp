// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include <hipvmm/ipc/budget/budget_options.hpp>
#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/idle/idle_memory.hpp>
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::c {
namespace {

/// Set in the thread that runs a trim callback. It may not use the budget, because the budget could
/// then end in the thread for which its end waits.
using trimming = detail::thread_mark<struct trimming_kind>;

void require_no_trim() {
  if (trimming::is_set())
    throw bad_argument{
        "called by the trim callback of a budget, which may release memory, and not use the "
        "budget: call it in another thread, or when the callback has returned"};
}

template <typename Body>
hipvmm_status with_budget(const char* function, hipvmm_budget budget, Body body) noexcept {
  return guarded(function, [&] {
    require_no_trim();
    const auto object = find<budget_object>(budget);
    body(object->owned);
  });
}

hipvmm_budget_holder holder_of(const budget_holder& one) {
  hipvmm_budget_holder made{one.process, one.priority, one.bytes, one.waiting_for, {}};
  one.program.copy(made.program, sizeof made.program - 1);
  return made;
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_budget_join(int device, const char* name, const char* options,
                                 hipvmm_trim_callback trim, void* argument, hipvmm_budget* budget) {
  return guarded(__func__, [&] {
    require_no_trim();
    create(budget, "budget", [&] {
      if (name == nullptr) throw bad_argument{"name is null, and is to name a budget"};
      const device_ref of = device_of(device);
      joining_settings chosen = budget_settings(of, options);
      if (trim != nullptr)
        chosen.options.trim = [trim, argument](std::size_t bytes) {
          const trimming in_this_thread;
          trim(bytes, argument);
        };
      return std::make_shared<budget_object>(
          memory_budget{of, name, chosen.limit, std::move(chosen.options)});
    });
  });
}

hipvmm_status hipvmm_budget_leave(hipvmm_budget budget) {
  return guarded(__func__, [&] {
    require_no_trim();
    destroy<budget_object>(budget);
  });
}

hipvmm_status hipvmm_budget_set_limit(hipvmm_budget budget, size_t bytes) {
  return with_budget(__func__, budget, [&](memory_budget& of) { of.set_limit(bytes); });
}

hipvmm_status hipvmm_budget_make_room(hipvmm_budget budget, size_t bytes, int* has_room) {
  return with_budget(__func__, budget, [&](memory_budget& of) {
    int& result = out(has_room, "has_room");  // throws before others release memory
    result = of.make_room(bytes) ? 1 : 0;
  });
}

hipvmm_status hipvmm_budget_get_statistics(hipvmm_budget budget,
                                           hipvmm_budget_statistics* statistics) {
  return with_budget(__func__, budget, [&](memory_budget& of) {
    const budget_report now = of.report();
    copy_struct(statistics,
                {sizeof *statistics, now.limit, now.bytes, of.bytes(), now.holders.size()},
                "statistics");
  });
}

hipvmm_status hipvmm_budget_get_holders(hipvmm_budget budget, hipvmm_budget_holder* holders,
                                        size_t capacity, size_t* count) {
  return with_budget(__func__, budget, [&](memory_budget& of) {
    if (holders == nullptr && capacity != 0)
      throw bad_argument{"holders is null, and has room for " + std::to_string(capacity)};
    std::size_t& result = out(count, "count");
    budget_report now = of.report();
    std::ranges::sort(now.holders, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    result = now.holders.size();
    for (std::size_t i = 0; i < std::min(capacity, now.holders.size()); ++i)
      holders[i] = holder_of(now.holders[i]);
  });
}

hipvmm_status hipvmm_idle_get_statistics(hipvmm_idle_statistics* statistics) {
  return guarded(__func__, [&] {
    const idle_memory_statistics now = idle_memory();
    copy_struct(statistics,
                {sizeof *statistics, now.asked, now.refused, now.moved_bytes, now.released_bytes,
                 static_cast<std::uint64_t>(now.time.count())},
                "statistics");
  });
}

}  // extern "C"

}  // namespace hipvmm::c
