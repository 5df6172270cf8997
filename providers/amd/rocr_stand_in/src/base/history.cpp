// SPDX-License-Identifier: MIT
#include "src/base/history.hpp"

#include <deque>
#include <mutex>

#include "src/base/clock.hpp"
#include "src/base/text.hpp"

namespace stand_in {
namespace {

struct ended_range {
  const char* what;
  const char* how;
  std::uint64_t address;
  std::uint64_t bytes;
  int thread;
  std::uint64_t time;
};

constexpr std::size_t most_kept = 4096;

struct state {
  std::mutex lock;
  std::deque<ended_range> ranges;  // newest first
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

}  // namespace

void remember_end(const char* what, const char* how, std::uint64_t address, std::uint64_t bytes) {
  const ended_range made{what, how, address, bytes, thread_id(), now()};
  state& all = the_state();
  std::lock_guard guard(all.lock);
  all.ranges.push_front(made);
  if (all.ranges.size() > most_kept) all.ranges.pop_back();
}

std::string describe_history(std::uint64_t address, int most) {
  state& all = the_state();
  std::lock_guard guard(all.lock);
  std::string described;
  for (const ended_range& each : all.ranges) {
    if (address < each.address || address - each.address >= each.bytes) continue;
    if (most-- <= 0) break;
    described += text("%s%s 0x%llx of %llu bytes (offset %llu), %s by thread %d %.3f ms ago",
                      described.empty() ? "" : "; ", each.what, wide(each.address),
                      wide(each.bytes), wide(address - each.address), each.how, each.thread,
                      static_cast<double>(now() - each.time) / 1e6);
  }
  return described;
}

}  // namespace stand_in
