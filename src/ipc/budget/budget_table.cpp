// SPDX-License-Identifier: MIT
#include "ipc/budget/budget_table.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "ipc/budget/futex.hpp"
#include "ipc/protocol_step.hpp"

namespace hipvmm::detail {
namespace {

/// Whatever the table says, sums do not wrap around.
std::uint64_t add(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t sum = a + b;
  return sum < a ? std::numeric_limits<std::uint64_t>::max() : sum;
}

std::uint64_t above(std::uint64_t sum, std::uint64_t limit) noexcept {
  return sum > limit ? sum - limit : 0;
}

// The clock is the same in all processes of the machine.
std::uint64_t milliseconds_of(std::chrono::steady_clock::time_point when) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count());
}

std::uint64_t waiting_of(const budget_record& record) noexcept {
  const std::uint64_t bytes = record.waiting_for;
  return bytes != 0 && milliseconds_of(std::chrono::steady_clock::now()) <= record.waits_until_ms
             ? bytes
             : 0;
}

/// Numbers of requests wrap around.
bool has_answered(const budget_record& record, std::uint32_t number) noexcept {
  return static_cast<std::int32_t>(record.answered - number) >= 0;
}

void step(const char* name) noexcept { static_cast<void>(protocol_step(name)); }

}  // namespace

bool budget_table::join(process_identity self, int priority, const char* program) noexcept {
  for (int tries = 0; tries < 2; ++tries) {
    for (std::size_t at = 0; at < max_budget_processes; ++at) {
      budget_record& record = shared_.records[at];
      process_identity free = 0;
      step("join");
      if (!record.owner.compare_exchange_strong(free, self)) continue;
      own_ = at;
      step("joined");
      // Until it is zero, what the last owner held counts too.
      record.held = 0;
      record.claimed = 0;
      record.waiting_for = 0;
      step("cleared");
      record.priority = priority;
      record.answered = shared_.header.requests.load();
      bool ends = false;
      for (std::size_t i = 0; i < record.program.size(); ++i) {
        ends = ends || program[i] == '\0' || i + 1 == record.program.size();
        record.program[i].store(ends ? '\0' : program[i], std::memory_order_relaxed);
      }
      return true;
    }
    if (!reap()) return false;
  }
  return false;
}

void budget_table::leave() noexcept {
  step("leave");
  own().owner = 0;
  own_ = max_budget_processes;
  step("left");
  change_and_wake(shared_.header.changes);
}

void budget_table::set_held(std::uint64_t bytes) noexcept {
  const bool is_less = bytes < own_held_.exchange(bytes);
  own().held = bytes;
  step("held");
  if (is_less) change_and_wake(shared_.header.changes);
}

budget_table::sums budget_table::add_up() const noexcept {
  sums result;
  const bool has_own = own_ != max_budget_processes;
  const std::int32_t priority = has_own ? own().priority.load() : 0;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    if (record.owner == 0) continue;
    if (at != own_) {
      // Before what it holds: a claim that succeeds meanwhile counts twice rather than not at all.
      std::uint64_t& claimed = at < own_ ? result.claimed_before : result.claimed_behind;
      claimed = add(claimed, record.claimed);
      if (has_own && record.priority > priority)
        result.reserved = add(result.reserved, waiting_of(record));
    }
    const std::uint64_t its = record.held;
    result.held = add(result.held, its);
    if (at == own_ || (has_own && record.priority > priority)) result.firm = add(result.firm, its);
  }
  return result;
}

// A claim is announced before the sum is taken: of two that do not fit together, the one that was
// announced later sees the other. It may be that both see each other. Then the one whose record is
// first goes on, and the other takes its claim back for a moment.
bool budget_table::claim(std::uint64_t bytes) noexcept {
  constexpr int most_tries = 200;
  constexpr int tries_with_dead = 100;
  budget_record& record = own();
  bool is_reaped = false;
  bool fits = false;
  for (int tries = 0; tries < most_tries && !fits; ++tries) {
    record.claimed = bytes;
    step("claim");
    const sums all = add_up();
    const std::uint64_t limit = shared_.header.limit;
    const std::uint64_t firm = add(add(all.held, all.reserved), bytes);
    if (add(firm, add(all.claimed_before, all.claimed_behind)) <= limit) {
      fits = true;
    } else if (firm > limit || tries >= tries_with_dead) {
      // Only now, for it costs a look at /proc for each process.
      if (std::exchange(is_reaped, true)) break;
      if (!reap() && firm > limit) break;
    } else {
      if (all.claimed_before != 0) record.claimed = 0;
      step("again");
      std::this_thread::yield();
    }
  }
  step("claimed");
  if (fits) record.held = own_held_ += bytes;
  step("counted");
  record.claimed = 0;
  return fits;
}

void budget_table::set_waiting(std::uint64_t bytes,
                               std::chrono::steady_clock::time_point until) noexcept {
  own().waits_until_ms = milliseconds_of(until);
  step("wait");
  own().waiting_for = bytes;
  // What was reserved for it others may have now.
  if (bytes == 0) change_and_wake(shared_.header.changes);
}

std::uint32_t budget_table::request() noexcept {
  step("request");
  change_and_wake(shared_.header.requests);
  return shared_.header.requests;
}

bool budget_table::is_answered(std::uint32_t number) noexcept {
  const std::int32_t priority = own().priority;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    if (at != own_ && record.owner != 0 && record.held != 0 && record.priority <= priority &&
        !has_answered(record, number))
      return false;
  }
  return true;
}

budget_duty budget_table::duty(std::uint32_t number) noexcept {
  const std::uint64_t held = own_held_;
  const std::int32_t priority = own().priority;
  std::uint64_t wanted = 0;
  budget_duty result;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    if (record.owner == 0) continue;
    const std::uint64_t its = record.held;
    wanted = add(wanted, its);
    if (at == own_) continue;
    const std::int32_t its_priority = record.priority;
    if (its_priority >= priority) wanted = add(wanted, waiting_of(record));
    const bool is_before = its_priority != priority ? its_priority < priority
                           : its != held            ? its > held
                                                    : at < own_;
    // One that waits itself asks, and is not asked before others.
    if (is_before && its != 0 && waiting_of(record) == 0 && !has_answered(record, number))
      result.is_turn = false;
  }
  result.to_release = std::min(held, above(wanted, shared_.header.limit));
  return result;
}

void budget_table::answer(std::uint32_t number) noexcept {
  step("answer");
  own().answered = number;
  change_and_wake(shared_.header.changes);
}

std::uint64_t budget_table::left() const noexcept {
  const sums all = add_up();
  const std::uint64_t claimed = add(all.claimed_before, all.claimed_behind);
  return above(shared_.header.limit, add(add(all.held, all.reserved), claimed));
}

std::uint64_t budget_table::most_left() const noexcept {
  const sums all = add_up();
  return above(shared_.header.limit, add(all.firm, all.reserved));
}

std::uint64_t budget_table::held() const noexcept { return add_up().held; }

bool budget_table::is_waiting() const noexcept { return waiting_of(own()) != 0; }

bool budget_table::reap() noexcept {
  bool found = false;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    budget_record& record = shared_.records[at];
    process_identity owner = record.owner;
    if (owner == 0 || at == own_ || is_running(owner)) continue;
    step("reap");
    found = record.owner.compare_exchange_strong(owner, 0) || found;
  }
  if (found) change_and_wake(shared_.header.changes);
  return found;
}

std::vector<budget_holder> budget_table::holders() const {
  std::vector<budget_holder> result;
  for (const budget_record& record : shared_.records) {
    const process_identity owner = record.owner;
    if (owner == 0 || !is_running(owner)) continue;
    std::string program;
    for (const std::atomic<char>& each : record.program) {
      const char letter = each.load(std::memory_order_relaxed);
      if (letter == '\0') break;
      program += letter >= ' ' && letter <= '~' ? letter : '?';
    }
    result.push_back({process_of(owner), program, record.priority,
                      static_cast<std::size_t>(record.held),
                      static_cast<std::size_t>(waiting_of(record))});
  }
  return result;
}

}  // namespace hipvmm::detail
