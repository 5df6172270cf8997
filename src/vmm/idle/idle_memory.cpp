// SPDX-License-Identifier: MIT
#include "vmm/idle/idle_memory.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "runtime/device.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm {
namespace detail {

constinit std::atomic<std::uint64_t> times_given{0};

struct idle_membership::record {
  record(idle_holder& asked, device_ref of, price what, int rank) noexcept
      : device{of}, order{what == price::evicted, rank, what}, holder{&asked} {}

  /// Returns whether the thread has the lock now. Waits as long as a holder's calls of HIP may
  /// take, but not for a holder that asks others, which may wait for this thread.
  [[nodiscard]] bool lock_briefly() noexcept {
    constexpr auto longest = std::chrono::milliseconds{50};
    constexpr auto between = std::chrono::microseconds{50};
    for (const auto end = std::chrono::steady_clock::now() + longest;;) {
      if (asks) return false;
      if (mutex.try_lock()) return true;
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(between);
    }
  }

  const device_ref device;
  const std::tuple<bool, int, price> order;
  std::mutex mutex;
  std::atomic<std::thread::id> owner{};  // of the mutex, as idle_membership::lock
  std::atomic<bool> asks{false};         // the owner asks others
  std::atomic<int> waiters{0};           // requests that wait for work of evicted holders
  idle_holder* holder;                   // under the mutex; null after end()
};

class idle_holders {
 public:
  using record_list = std::vector<std::shared_ptr<idle_membership::record>>;

  void add(const std::shared_ptr<idle_membership::record>& added) {
    const std::lock_guard lock{mutex_};
    records_.insert(behind(*added), added);
  }
  void move_behind(const std::shared_ptr<idle_membership::record>& used) noexcept {
    const std::lock_guard lock{mutex_};
    const auto at = std::ranges::find(records_, used);
    if (at == records_.end()) return;  // it has ended
    std::rotate(at, at + 1, behind(*used));
  }
  void remove(const std::shared_ptr<idle_membership::record>& removed) noexcept {
    const std::lock_guard lock{mutex_};
    records_.erase(std::ranges::find(records_, removed));
  }
  /// Evicts contents only if the holders have `missing` bytes in all.
  template <typename IsEnoughFree>
  given_memory ask(idle_request wanted, std::size_t missing, IsEnoughFree is_enough_free);
  [[nodiscard]] std::size_t idle_bytes(device_ref device);
  [[nodiscard]] idle_memory_statistics statistics() {
    const std::lock_guard lock{mutex_};
    return statistics_;
  }
  void count(const given_memory& given, std::chrono::steady_clock::duration time) {
    const std::lock_guard lock{mutex_};
    ++statistics_.asked;
    if (given.all() == 0) ++statistics_.refused;
    statistics_.moved_bytes += given.moved;
    statistics_.released_bytes += given.released;
    statistics_.time += time;
  }

 private:
  /// Holders that this thread has locked, of any device, are marked as asking and left out.
  class asked_records {
   public:
    asked_records(idle_holders& all, device_ref device) {
      const std::lock_guard lock{all.mutex_};
      for (const auto& each : all.records_) {
        const bool is_own = each->owner == std::this_thread::get_id();
        if (is_own || each->device == device) (is_own ? own_ : others_).push_back(each);
      }
      // Before any is asked: of two threads that ask each other, one sees the other's mark.
      for (const auto& each : own_) each->asks = true;
    }
    ~asked_records() {
      for (const auto& each : own_) each->asks = false;
      if (is_wait_)
        for (const auto& each : others_) --each->waiters;
    }
    asked_records& operator=(asked_records&&) = delete;
    [[nodiscard]] const record_list& others() const noexcept { return others_; }
    void begin_wait() noexcept {
      is_wait_ = true;
      for (const auto& each : others_) ++each->waiters;
    }

   private:
    record_list own_;
    record_list others_;
    bool is_wait_ = false;
  };

  /// Returns false if the lock does not come briefly.
  template <typename Work>
  static bool with_holder(idle_membership::record& one, Work work) {
    if (!one.lock_briefly()) return false;
    const std::lock_guard locked{one.mutex, std::adopt_lock};
    if (one.holder == nullptr) return true;
    one.owner = std::this_thread::get_id();
    report_exceptions([&] { work(*one.holder); });
    one.owner = std::thread::id{};
    return true;
  }

  [[nodiscard]] record_list::iterator behind(const idle_membership::record& one) noexcept {
    return std::ranges::partition_point(records_,
                                        [&](const auto& each) { return each->order <= one.order; });
  }

  std::mutex mutex_;
  record_list records_;  // by `order`
  idle_memory_statistics statistics_{};
};

template <typename IsEnoughFree>
given_memory idle_holders::ask(idle_request wanted, std::size_t missing,
                               IsEnoughFree is_enough_free) {
  // For work on free memory. Short, because that work may wait for the thread that asks.
  constexpr std::chrono::milliseconds wait_of_a_request{20};
  given_memory sum;
  const callbacks_wait until_unlocked;  // callbacks may make and end holders
  asked_records asked{*this, wanted.device};
  const without_asking_others while_asking;
  const auto is_evicted = [](const auto& each) { return std::get<0>(each->order); };
  const bool may_wait = wanted.evicts_until > std::chrono::steady_clock::now();
  const auto can_evict_enough = [&] {
    std::size_t most = sum.all();
    for (const auto& each : asked.others()) {
      if (most >= missing) break;
      if (!is_evicted(each)) continue;
      const auto add = [&](idle_holder& holder) {
        most += may_wait ? holder.idle_bytes_when_done() : holder.idle_bytes();
      };
      if (!with_holder(*each, add) && !each->asks) return true;
    }
    return most >= missing;
  };
  const auto ask_all = [&] {
    std::optional<bool> may_evict;
    for (const auto& each : asked.others()) {
      if (wanted.bytes == 0) break;
      if (is_evicted(each) && !may_evict) may_evict = can_evict_enough();
      with_holder(*each, [&](idle_holder& holder) {
        // give_idle() of a holder that has nothing counts the request.
        if (may_evict == false && holder.idle_bytes() != 0) return;
        const given_memory given = holder.give_idle(wanted);
        if (given.all() != 0) ++times_given;
        sum.moved += given.moved;
        sum.released += given.released;
        wanted.bytes -= std::min(wanted.bytes, given.all());
      });
    }
  };
  // One for all holders, in their order.
  wanted.deadline = std::max(wanted.deadline, std::chrono::steady_clock::now() + wait_of_a_request);
  ask_all();
  // Addresses that a later holder freed may have pinned an earlier one's memory.
  if (sum.all() == 0) ask_all();
  if (!may_wait) return sum;
  asked.begin_wait();
  const auto is_busy = [&](const auto& each) {
    bool result = false;
    const auto look = [&](idle_holder& holder) {
      result = holder.idle_bytes_when_done() > holder.idle_bytes();
    };
    return is_evicted(each) && with_holder(*each, look) && result;
  };
  constexpr std::chrono::microseconds longest_pause{1000};
  std::chrono::microseconds pause{50};
  for (bool goes_on = true; goes_on && wanted.bytes != 0;) {
    goes_on = std::ranges::any_of(asked.others(), is_busy) && can_evict_enough() &&
              std::chrono::steady_clock::now() < wanted.evicts_until;
    if (goes_on) std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest_pause);
    if (is_enough_free()) break;
    ask_all();  // a last time too: work may have ended
  }
  return sum;
}

std::size_t idle_holders::idle_bytes(device_ref device) {
  const asked_records asked{*this, device};
  const callbacks_wait until_unlocked;
  std::size_t sum = 0;
  for (const auto& each : asked.others()) {
    const std::unique_lock lock{each->mutex, std::try_to_lock};
    if (lock && each->holder != nullptr) sum += each->holder->idle_bytes();
  }
  return sum;
}

idle_membership::idle_membership(idle_holder& holder, device_ref device, price cost, int priority)
    : record_{std::make_shared<record>(holder, device, cost, priority)} {
  only<idle_holders>().add(record_);
}

void idle_membership::end() noexcept {
  if (!record_ || process_.is_of_parent()) return;
  only<idle_holders>().remove(record_);
  {
    const std::lock_guard wait{record_->mutex};
    record_->holder = nullptr;
  }
  record_.reset();
}

void idle_membership::note_use() noexcept { only<idle_holders>().move_behind(record_); }

bool idle_membership::is_awaited() const noexcept { return record_->waiters != 0; }

bool idle_membership::is_of_caller() const noexcept {
  return record_->owner == std::this_thread::get_id();
}

idle_membership::lock::lock(idle_membership& of) noexcept : locked_{*of.record_} {
  locked_.mutex.lock();
  locked_.owner = std::this_thread::get_id();
}

idle_membership::lock::~lock() {
  locked_.owner = std::thread::id{};
  locked_.mutex.unlock();
}

bool idle_request::takes(const physical_chunk& chunk) const noexcept {
  return taker != nullptr && chunk.location() == device && chunk.bytes() == chunk_bytes &&
         chunk.shareable() == shareable && chunk.memory() == chunk_memory::standard &&
         !chunk.shared() && !is_retained(chunk);
}

bool ask_idle_holders(const out_of_memory& shortage, const idle_request& asks) noexcept {
  const struct shortage& why = shortage.why();
  if (without_asking_others::is_set() || why.device < 0 ||
      (why.cause != exhausted::device_memory && why.cause != exhausted::budget))
    return false;
  given_memory given;
  bool others_released = false;
  report_exceptions([&] {
    idle_request wanted = asks;
    wanted.device = device_ref{why.device};
    if (why.requested > most_memory(wanted.device)) return;
    const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    const std::size_t needed = std::max(why.requested, wanted.bytes);
    // The request may have undone chunks since.
    std::size_t available = why.available;
    if (why.cause == exhausted::device_memory)
      report_exceptions([&] { available = std::max(available, wanted.device.free_memory()); });
    const std::size_t missing = needed - std::min(needed, available);
    // HIP may count more free memory than a request gets.
    wanted.bytes = missing == 0 ? std::max<std::size_t>(why.requested, 1) : missing;
    const auto is_enough_free = [&] {
      report_exceptions([&] {
        others_released = std::min(chunk_bytes_left(wanted.device), wanted.device.free_memory()) >=
                          std::max(needed, available + 1);
      });
      return others_released;
    };
    given = only<idle_holders>().ask(wanted, missing, is_enough_free);
    only<idle_holders>().count(given, std::chrono::steady_clock::now() - begin);
  });
  return given.all() != 0 || others_released;
}

std::size_t give_idle_memory(const idle_request& wanted) noexcept {
  given_memory given;
  report_exceptions([&] { given = only<idle_holders>().ask(wanted, 0, [] { return false; }); });
  return given.all();
}

std::size_t idle_bytes_of(device_ref device) { return only<idle_holders>().idle_bytes(device); }

}  // namespace detail

idle_memory_statistics idle_memory() noexcept {
  return detail::only<detail::idle_holders>().statistics();
}

}  // namespace hipvmm
