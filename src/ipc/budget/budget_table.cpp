// SPDX-License-Identifier: MIT
#include "ipc/budget/budget_table.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "ipc/budget/futex.hpp"
#include "ipc/fault_point.hpp"

namespace hipvmm::detail {
namespace {

/// Saturates, because the table may have any contents.
std::uint64_t add(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t sum = a + b;
  return sum < a ? std::numeric_limits<std::uint64_t>::max() : sum;
}

std::uint64_t above(std::uint64_t sum, std::uint64_t limit) noexcept {
  return sum > limit ? sum - limit : 0;
}

// The steady clock is the same in all processes of a time namespace.
std::uint64_t milliseconds_of(std::chrono::steady_clock::time_point when) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count());
}

// Set until the owner has cleared the bytes of its predecessor. Identities have 62 bits.
constexpr process_identity joining = process_identity{1} << 63U;

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

void step(const char* name) noexcept { static_cast<void>(fault_point(name)); }

}  // namespace

bool budget_table::join(process_identity self, int priority, const char* program) noexcept {
  const std::lock_guard lock{own_mutex_};
  self_ = self;
  priority_ = priority;
  program_ = program;
  own_held_ = 0;
  if (!take_record()) self_ = 0;
  return self_ != 0;
}

bool budget_table::take_record() noexcept {
  // The former record may be another process's by now.
  own_ = max_budget_processes;
  for (int tries = 0; tries < 2; ++tries) {
    for (std::size_t at = 0; at < max_budget_processes; ++at) {
      budget_record& record = shared_.records[at];
      process_identity free = 0;
      step("join");
      if (!record.owner.compare_exchange_strong(free, self_ | joining)) continue;
      step("joined");
      // Until this store the bytes of the last owner count, though holders() lists them for nobody.
      record.held = own_held_.load();
      record.claimed = 0;
      record.waiting_for = 0;
      step("cleared");
      record.priority = priority_;
      record.answered = shared_.header.requests.load();
      bool ends = false;
      for (std::size_t i = 0; i < record.program.size(); ++i) {
        ends = ends || program_[i] == '\0' || i + 1 == record.program.size();
        record.program[i].store(ends ? '\0' : program_[i], std::memory_order_relaxed);
      }
      process_identity cleared = self_ | joining;
      // Fails if another process has freed the record.
      if (!record.owner.compare_exchange_strong(cleared, self_)) continue;
      own_ = at;
      return true;
    }
    if (!reap()) return false;
  }
  return false;
}

void budget_table::leave() noexcept {
  step("leave");
  const std::lock_guard lock{own_mutex_};
  process_identity self = std::exchange(self_, 0);
  const std::size_t own = own_.exchange(max_budget_processes);
  if (own != max_budget_processes) shared_.records[own].owner.compare_exchange_strong(self, 0);
  step("left");
  change_and_wake(shared_.header.changes);
}

budget_record* budget_table::own_record() noexcept {
  const bool has_own = own_ != max_budget_processes && shared_.records[own_].owner == self_;
  if (self_ == 0 || (!has_own && !take_record())) return nullptr;
  return &shared_.records[own_];
}

bool budget_table::keep_record() noexcept {
  const std::lock_guard lock{own_mutex_};
  return own_record() != nullptr;
}

void budget_table::set_held(std::uint64_t bytes) noexcept {
  const std::lock_guard lock{own_mutex_};
  const bool is_less = bytes < own_held_.exchange(bytes);
  if (budget_record* const record = own_record()) record->held = bytes;
  step("held");
  if (is_less) change_and_wake(shared_.header.changes);
}

budget_table::sums budget_table::add_up() const noexcept {
  sums result;
  const bool has_own = own_ != max_budget_processes;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    if (record.owner == 0) continue;
    if (at != own_) {
      // Before its held bytes: a claim that succeeds now counts twice rather than not at all.
      std::uint64_t& claimed = at < own_ ? result.claimed_before : result.claimed_behind;
      claimed = add(claimed, record.claimed);
      if (has_own && record.priority > priority_)
        result.reserved = add(result.reserved, waiting_of(record));
    }
    const std::uint64_t its = record.held;
    result.held = add(result.held, its);
    if (at == own_ || (has_own && record.priority > priority_)) result.firm = add(result.firm, its);
  }
  return result;
}

// Each process announces its claim before it adds up, so of two claims that do not fit together at
// least one process sees the other. The process whose record is first keeps its claim; the other
// withdraws its own for a moment. Another process may free this one's record meanwhile.
bool budget_table::claim(std::uint64_t bytes) noexcept {
  constexpr int most_tries = 200;
  constexpr int tries_with_dead = 100;
  const std::lock_guard lock{own_mutex_};
  budget_record* own = nullptr;
  std::uint64_t too_much = 0;
  bool is_reaped = false;
  bool fits = false;
  for (int tries = 0; tries < most_tries && !fits; ++tries) {
    own = own_record();
    if (own == nullptr) return false;
    own->claimed = bytes;
    step("claim");
    const sums all = add_up();
    const std::uint64_t limit = shared_.header.limit;
    const std::uint64_t firm = add(add(all.held, all.reserved), bytes);
    if (add(firm, add(all.claimed_before, all.claimed_behind)) <= limit) {
      fits = own->owner == self_;
    } else if (firm > limit && std::exchange(too_much, firm) != firm) {
      // Memory that moved between two others meanwhile counts twice: the next sum differs.
      continue;
    } else if (firm > limit || tries >= tries_with_dead) {
      // Only now, because reap() reads /proc. Others may have the memory meanwhile.
      own->claimed = 0;
      if (std::exchange(is_reaped, true)) break;
      if (!reap() && firm > limit) break;
    } else {
      if (all.claimed_before != 0) own->claimed = 0;
      step("again");
      std::this_thread::yield();
    }
  }
  step("claimed");
  if (fits) own->held = own_held_ += bytes;
  step("counted");
  if (own->owner == self_) own->claimed = 0;
  return fits;
}

void budget_table::set_waiting(std::uint64_t bytes,
                               std::chrono::steady_clock::time_point until) noexcept {
  {
    const std::lock_guard lock{own_mutex_};
    budget_record* const own = own_record();
    if (own == nullptr) return;
    own->waits_until_ms = milliseconds_of(until);
    step("wait");
    own->waiting_for = bytes;
  }
  // Other processes may now have the bytes that were reserved for this one.
  if (bytes == 0) change_and_wake(shared_.header.changes);
}

std::uint32_t budget_table::request() noexcept {
  step("request");
  change_and_wake(shared_.header.requests);
  return shared_.header.requests;
}

bool budget_table::is_answered(std::uint32_t number) noexcept {
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    if (at != own_ && record.owner != 0 && record.held != 0 && record.priority <= priority_ &&
        !has_answered(record, number))
      return false;
  }
  return true;
}

trim_request budget_table::duty(std::uint32_t number) noexcept {
  const std::uint64_t held = own_held_;
  std::uint64_t wanted = 0;
  trim_request result;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    if (record.owner == 0) continue;
    const std::uint64_t its = record.held;
    wanted = add(wanted, its);
    if (at == own_) continue;
    const std::int32_t its_priority = record.priority;
    if (its_priority >= priority_) wanted = add(wanted, waiting_of(record));
    const bool is_before = its_priority != priority_ ? its_priority < priority_
                           : its != held             ? its > held
                                                     : at < own_;
    // A waiting process asks, and is not asked before others.
    if (is_before && its != 0 && waiting_of(record) == 0 && !has_answered(record, number))
      result.is_turn = false;
  }
  result.to_release = std::min(held, above(wanted, shared_.header.limit));
  return result;
}

void budget_table::answer(std::uint32_t number) noexcept {
  step("answer");
  {
    const std::lock_guard lock{own_mutex_};
    if (budget_record* const own = own_record()) own->answered = number;
  }
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

bool budget_table::is_waiting() const noexcept {
  const std::size_t own = own_;
  return own != max_budget_processes && waiting_of(shared_.records[own]) != 0;
}

bool budget_table::reap() noexcept {
  bool found = false;
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    budget_record& record = shared_.records[at];
    process_identity owner = record.owner;
    if (owner == 0 || at == own_ || is_running(owner & ~joining)) continue;
    step("reap");
    found = record.owner.compare_exchange_strong(owner, 0) || found;
  }
  if (found) change_and_wake(shared_.header.changes);
  return found;
}

// One reading can count memory twice that moves between processes, or give a record's next owner
// the bytes of the last one: two equal readings in a row count as one moment. If records change all
// the time, the last reading counts.
budget_table::all_held budget_table::held_at_once() const noexcept {
  constexpr int most_readings = 64;
  const auto read = [this] {
    all_held all;
    for (std::size_t at = 0; at < max_budget_processes; ++at) {
      const budget_record& record = shared_.records[at];
      all[at] = {record.owner, record.held};
      if (at == 0) step("read");
    }
    return all;
  };
  auto last = read();
  for (int i = 1; i < most_readings; ++i)
    if (const auto before = std::exchange(last, read()); before == last) break;
  return last;
}

std::vector<budget_holder> budget_table::holders() const {
  std::vector<budget_holder> result;
  const auto all = held_at_once();
  for (std::size_t at = 0; at < max_budget_processes; ++at) {
    const budget_record& record = shared_.records[at];
    const auto [owner, held] = all[at];
    if (owner == 0 || (owner & joining) != 0 || !is_running(owner)) continue;
    std::string program;
    for (const std::atomic<char>& each : record.program) {
      const char letter = each.load(std::memory_order_relaxed);
      if (letter == '\0') break;
      program += letter >= ' ' && letter <= '~' ? letter : '?';
    }
    result.push_back({process_of(owner), program, record.priority, static_cast<std::size_t>(held),
                      static_cast<std::size_t>(waiting_of(record))});
  }
  return result;
}

}  // namespace hipvmm::detail
