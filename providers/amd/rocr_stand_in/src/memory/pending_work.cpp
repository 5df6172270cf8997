// SPDX-License-Identifier: MIT
#include "src/memory/pending_work.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"

namespace stand_in {
namespace {

struct state {
  std::mutex lock;
  std::vector<work_source*> sources;
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

}  // namespace

void work_source::list() {
  std::lock_guard guard(the_state().lock);
  the_state().sources.push_back(this);
}

void work_source::unlist() {
  std::lock_guard guard(the_state().lock);
  std::erase(the_state().sources, this);
}

void check_unused(const char* how, const char* what, std::uint64_t address, std::uint64_t bytes) {
  if (!knobs().check_pending) return;
  std::string found;
  {
    std::lock_guard guard(the_state().lock);
    for (work_source* each : the_state().sources) {
      each->visit_unfinished([&](const operation& work, const byte_range& range) {
        if (!found.empty() || range.bytes == 0) return;
        if (range.address >= address + bytes || range.address + range.bytes <= address) return;
        const std::uint64_t first = std::max(address, range.address);
        const std::string before = describe_history(first, 3);
        found = text(
            "%s of %s 0x%llx of %llu bytes by thread %d while queued work has not finished: %s, "
            "names it as %s 0x%llx of %llu bytes (from offset %llu of the %s on). %sBefore: %s.",
            how, what, wide(address), wide(bytes), thread_id(), describe(work).c_str(), range.role,
            wide(range.address), wide(range.bytes), wide(first - address), what,
            work.progress.c_str(), before.empty() ? "nothing ended here" : before.c_str());
      });
    }
  }
  if (!found.empty()) report(found);
}

}  // namespace stand_in
