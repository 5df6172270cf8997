// SPDX-License-Identifier: MIT
#include "ipc/budget/budget_member.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "core/check.hpp"
#include "ipc/budget/futex.hpp"
#include "ipc/fault_point.hpp"
#include "region/retirement.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::detail {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Processes that are asked before this one may be stopped, or in a long callback.
constexpr auto turn_patience = 100ms;
// For work that uses free memory of pools; less, because the processes behind this one wait.
constexpr auto idle_patience = 50ms;
constexpr auto retired_interval = 2ms;
// No message reports a killed process, so waiting processes look for the dead.
constexpr auto death_interval = 20ms;
constexpr auto idle_interval = 2s;

/// Ends the threads of all budgets before HIP ends.
class all_shares {
 public:
  static void add(const std::shared_ptr<budget_member>& share) {
    static auto& all = *new all_shares;
    static const ::pid_t process = ::getpid();
    static const bool registered = std::atexit([] {
                                     if (::getpid() == process) all.end();
                                   }) == 0;
    static_cast<void>(registered);
    const std::lock_guard lock{all.mutex_};
    std::erase_if(all.shares_, [](const auto& each) { return each.expired(); });
    all.shares_.push_back(share);
  }

 private:
  void end() noexcept {
    std::vector<std::weak_ptr<budget_member>> ending;
    {
      const std::lock_guard lock{mutex_};
      ending.swap(shares_);
    }
    for (const std::weak_ptr<budget_member>& each : ending)
      if (const std::shared_ptr<budget_member> share = each.lock()) share->end();
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<budget_member>> shares_;
};

milliseconds until(std::chrono::steady_clock::time_point when) {
  return std::chrono::ceil<milliseconds>(when - std::chrono::steady_clock::now());
}

}  // namespace

budget_report report_of(const budget_table& table) {
  const budget_header& header = table.header();
  budget_report result{{header.name.begin(), std::ranges::find(header.name, '\0')},
                       {header.device},
                       static_cast<std::size_t>(header.limit),
                       0,
                       table.holders()};
  for (const budget_holder& each : result.holders)
    result.bytes += std::min(each.bytes, ~std::size_t{0} - result.bytes);
  return result;
}

budget_member::budget_member(device_ref device, budget_key key, budget_options options,
                             std::unique_ptr<budget_file> file)
    : device_{device},
      key_{std::move(key)},
      options_{std::move(options)},
      file_{std::move(file)},
      table_{file_->shared()} {}

std::shared_ptr<budget_member> budget_member::join(device_ref device, const budget_key& key,
                                                   std::size_t limit, budget_options options) {
  const process_identity self = own_process_identity();
  std::shared_ptr<budget_member> share{
      new budget_member{device, key, std::move(options), budget_file::open(key, limit)}};
  budget_table& table = share->table_;
  table.reap();
  budget_header& header = table.header();
  const std::vector<budget_holder> others = table.holders();
  if (!table.join(self, share->options_.priority, program_invocation_short_name))
    throw ipc_error{ipc_failure::refused,
                    "budget '" + key.name + "': " + std::to_string(max_budget_processes) +
                        " processes take part, and no more can: end some, or use another budget"};
  try {
    all_shares::add(share);
    set_chunk_limit(device, share);
  } catch (...) {
    table.leave();
    throw;
  }
  static_cast<void>(fault_point("limit"));
  if (others.empty() && header.is_fixed == 0) header.limit = limit;
  share->file_->unlock();
  if (!share->thread_.start())
    warn("memory_budget", "no thread could be started: other processes get no memory of this one");
  // The memory that it has already may exceed the limit.
  table.request();
  return share;
}

void budget_member::end() noexcept {
  if (process_.is_of_parent()) return;
  {
    std::unique_lock lock{mutex_};
    if (std::exchange(has_ended_, true)) return;
    no_waiter_.wait(lock, [this] { return waiters_ == 0; });
  }
  end_chunk_limit(device_);
  thread_.stop();
  table_.leave();
}

void budget_member::begin(std::size_t bytes) noexcept { table_.set_held(bytes); }

bool budget_member::charge(std::size_t bytes) noexcept {
  return process_.is_of_parent() || table_.claim(bytes);
}

void budget_member::uncharge(std::size_t bytes) noexcept {
  if (!process_.is_of_parent()) table_.set_held(table_.own_held() - bytes);
}

std::size_t budget_member::bytes_left() const noexcept { return table_.left(); }

std::size_t budget_member::most() const noexcept {
  return static_cast<std::size_t>(table_.header().limit);
}

budget_report budget_member::report() const { return report_of(table_); }

shortage budget_member::refusal(device_ref device, std::size_t bytes) const {
  shortage why = chunk_limit::refusal(device, bytes);
  why.owner = "budget '" + key_.name + "'";
  why.most = most();
  return why;
}

std::string budget_member::explain() const {
  constexpr std::size_t most_named = 8;
  budget_report now = report();
  std::ranges::sort(now.holders, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text = "budget '" + key_.name + "' has a limit of " + format_limit(now.limit) +
                     ", of which " + format_bytes(now.bytes) + " are held";
  const char* separator = ": ";
  for (std::size_t i = 0; i < std::min(now.holders.size(), most_named); ++i) {
    const budget_holder& each = now.holders[i];
    text += std::exchange(separator, ", ") + each.program + " (process " +
            std::to_string(each.process) + (each.process == ::getpid() ? ", this one) " : ") ") +
            format_bytes(each.bytes);
  }
  if (now.holders.size() > most_named)
    text += " and " + std::to_string(now.holders.size() - most_named) + " more";
  return text + "; release memory, or raise the limit: hipvmm-ctl limit " + key_.name + " SIZE";
}

std::string budget_member::why_split() const {
  if (file_->is_there()) return {};
  return "budget '" + key_.name +
         "': its file was removed, so that processes that join now have a budget of their own: "
         "start those that take part again, and let nobody remove it, such as systemd-logind at "
         "the user's last logout (RemoveIPC=no, or a folder elsewhere in HIPVMM_BUDGETS)";
}

bool budget_member::make_room(std::size_t bytes) noexcept {
  const clock::time_point end = deadline_in(options_.patience);
  if (process_.is_of_parent() || options_.patience <= 0ms) return false;
  // So that no process releases memory in place of dead ones.
  if (table_.left() < bytes) table_.reap();
  if (table_.most_left() < bytes) return false;
  {
    const std::lock_guard lock{mutex_};
    if (has_ended_) return false;
    ++waiters_;
    waiting_for_ += bytes;
    waits_until_ = std::max(waits_until_, end);
    table_.set_waiting(waiting_for_, waits_until_);
  }
  bool has_room = table_.left() >= bytes;
  const std::uint32_t number = has_room ? 0 : table_.request();
  clock::time_point next_look = clock::now() + death_interval;
  while (!has_room) {
    const std::uint32_t seen = table_.header().changes;
    // In this order, so that memory released before the last answer counts.
    const bool is_answered = table_.is_answered(number);
    has_room = table_.left() >= bytes;
    if (has_room || is_answered || clock::now() >= end) break;
    wait_while_equal(table_.header().changes, seen,
                     std::min<milliseconds>(until(end), death_interval));
    look_for_dead(next_look);
    const std::lock_guard lock{mutex_};
    if (has_ended_) break;
  }
  if (!has_room && table_.reap()) has_room = table_.left() >= bytes;
  const std::lock_guard lock{mutex_};
  waiting_for_ -= bytes;
  // The deadline stays, because other threads may wait on.
  table_.set_waiting(waiting_for_, waits_until_);
  if (--waiters_ == 0) no_waiter_.notify_all();
  return has_room;
}

void budget_member::serve(const std::stop_token& stop) noexcept {
  // Requests of the callback must not wait for a process that waits for this one.
  const without_asking_others while_serving;
  std::atomic<std::uint32_t>& requests = table_.header().requests;
  const std::stop_callback wake{stop, [&] { change_and_wake(requests); }};
  std::uint32_t attended = requests - 1;
  bool has_warned = false;
  while (!stop.stop_requested()) {
    const std::uint32_t number = requests;
    static_cast<void>(table_.keep_record());
    // So that this process releases nothing in place of dead ones.
    table_.reap();
    if (!has_warned) {
      report_exceptions([&] {
        const std::string why = why_split();
        has_warned = !why.empty();
        if (has_warned) warn("memory_budget", why);
      });
    }
    if (attended != number) {
      attended = attend(stop);
    } else if (const std::uint64_t bytes = table_.duty(number).to_release; bytes != 0) {
      release_kept(bytes);
    }
    if (!stop.stop_requested()) wait_while_equal(requests, number, idle_interval);
  }
}

bool budget_member::look_for_dead(clock::time_point& next) noexcept {
  if (clock::now() < next) return false;
  const bool found = table_.reap();
  next = clock::now() + death_interval;
  return found;
}

std::uint32_t budget_member::attend(const std::stop_token& stop) noexcept {
  std::optional<clock::time_point> end;
  clock::time_point next_look = clock::now() + death_interval;
  std::uint32_t number = table_.header().requests;
  while (!stop.stop_requested()) {
    const std::uint32_t seen = table_.header().changes;
    static_cast<void>(fault_point("attend"));
    const trim_request duty = table_.duty(number);
    // `duty` may include a newer request, and answers to `number` are not about that one.
    if (const std::uint32_t newest = table_.header().requests; newest != number) {
      number = newest;
      continue;
    }
    if (duty.to_release == 0) break;
    if (!end) end = clock::now() + turn_patience;
    if (duty.is_turn || clock::now() >= *end) {
      if (!release_for(number, stop)) return number;
      break;
    }
    if (look_for_dead(next_look)) continue;
    wait_while_equal(table_.header().changes, seen,
                     std::min<milliseconds>(until(*end), death_interval));
  }
  const std::lock_guard lock{mutex_};
  // No answer after end(): the bytes still count, but only for a moment.
  if (!has_ended_) table_.answer(number);
  return number;
}

bool budget_member::release_for(std::uint32_t number, const std::stop_token& stop) noexcept {
  bool may_ask = true;
  bool may_call = options_.trim != nullptr;
  while (!stop.stop_requested()) {
    const std::uint64_t retired = retired_bytes(device_);
    release_kept(table_.duty(number).to_release);
    const std::uint64_t bytes = table_.duty(number).to_release;
    if (bytes == 0) return true;
    if (bytes > retired && std::exchange(may_ask, false)) {
      const clock::time_point end = clock::now() + idle_patience;
      give_idle_memory({.device = device_,
                        .bytes = static_cast<std::size_t>(bytes - retired),
                        .deadline = end,
                        .evicts_until = end});
      continue;
    }
    if (bytes > retired && std::exchange(may_call, false) && !table_.is_waiting()) {
      report_exceptions([&] { options_.trim(static_cast<std::size_t>(bytes - retired)); });
      continue;
    }
    // Retired memory is released when its work passes. Wait, but only while a process needs it.
    if (retired == 0) return true;
    if (table_.header().requests != number) return false;
    wait_while_equal(table_.header().requests, number, retired_interval);
  }
  return true;
}

void budget_member::release_kept(std::size_t bytes) noexcept {
  if (bytes == 0) return;
  report_exceptions([&] {
    chunk_cache& cache = chunk_cache::shared();
    const std::size_t kept = cache.statistics(device_).bytes;
    // Even if nothing is kept, because trim() waits for chunks that another thread is releasing.
    cache.trim(device_, kept - std::min(kept, bytes));
  });
}

}  // namespace hipvmm::detail
