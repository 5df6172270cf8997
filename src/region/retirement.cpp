// SPDX-License-Identifier: MIT
#include "region/retirement.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include "core/background_thread.hpp"
#include "core/check.hpp"
#include "core/owner_process.hpp"
#include "runtime/check_resources.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm {
namespace detail {
namespace {

using retired_list = std::list<retired_item>;
using clock = std::chrono::steady_clock;

std::atomic<std::uint64_t> released_count{0};

// Marks the threads of the queue, which must not wait for themselves.
using releasing = thread_mark<struct releasing_kind>;

enum class work { pending, passed, not_to_be_waited_for };

/// Pre: the item has a mark.
work work_on(retired_item& item) noexcept {
  bool passed = false;
  const bool known = report_exceptions([&] {
    try {
      passed = item.mark->is_done();
      return true;
    } catch (const hip_error&) {
      if (!std::exchange(item.has_reported, true)) throw;
      return false;
    }
  });
  if (!known)
    return wait_for(item.devices, item.has_reported) ? work::passed : work::not_to_be_waited_for;
  return passed ? work::passed : work::pending;
}

void note_refusal(retired_item& item) noexcept {
  if (!item.refused_since) item.refused_since = clock::now();
}

std::string stuck_text(std::size_t bytes) {
  return format_bytes(bytes) +
         " that nothing should use any more stay mapped, because HIP refuses to wait for "
         "devices, as it does while a stream is being captured; end the capture and try again";
}

// Questions make no queue: it belongs to one process, which may fork before HIP's first call.
constinit std::atomic<bool> is_queue_made{false};

/// One thread queries all events in turn, so that no stream delays the memory of another. One
/// thread for each device waits for that device.
class retirement_queue {
 public:
  retirement_queue() {
    set_retired_bytes_function(retired_bytes);
    is_queue_made = true;
  }

  bool add(retired_list& one) noexcept;
  std::size_t waiting_bytes_of(device_ref device) const;
  retirement_statistics statistics() {
    if (process_.is_of_parent()) return {};
    const std::lock_guard lock{mutex_};
    return statistics_;
  }
  /// Waits while any item retired before this call `matters`. Throws: hip_error if captures forbid
  /// all waits that are left for longer than capture_patience.
  template <typename Predicate>
  void wait_while_any(Predicate matters);
  bool wait_for_one(const out_of_memory& shortage, std::uint64_t seen);

 private:
  using lock_type = std::unique_lock<std::mutex>;

  /// The items of one thread. Only that thread removes items, so that it may use one without the
  /// lock.
  struct lane {
    template <typename Work>
    explicit lane(Work work) : thread{std::move(work)} {}
    retired_list items;
    background_thread thread;
  };
  struct device_lane : lane {
    device_lane(retirement_queue& all, device_ref waited_for)
        : lane{[this, &all](const std::stop_token& stop) { all.wait_for_devices(*this, stop); }},
          device{waited_for} {}
    device_ref device;
  };

  lane& lane_of(device_ref device);
  bool pass_on(retired_list::iterator item) noexcept;
  template <typename Of>
  std::size_t sum(Of of) const;
  template <typename Predicate>
  std::size_t bytes_of(Predicate matters) const;
  /// Waits until at most `most` items that matter are left. Returns false after capture_patience if
  /// captures forbid all of their waits.
  template <typename Predicate>
  bool wait_until_left(lock_type& lock, std::size_t most, Predicate matters);
  void poll_events(const std::stop_token& stop);
  void wait_for_devices(lane& own, const std::stop_token& stop);
  void release_item(lane& own, retired_list::iterator item, lock_type& lock);
  void close();

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  lane events_{[this](const std::stop_token& stop) { poll_events(stop); }};
  std::list<device_lane> devices_;
  retirement_statistics statistics_{};
  std::uint64_t last_number_ = 0;
  int waiting_callers_ = 0;
  bool closes_at_exit_ = false;
  bool open_ = true;
  const detail::owner_process process_;
};

bool retirement_queue::add(retired_list& one) noexcept {
  try {
    retired_item& item = one.front();
    if (process_.is_of_parent()) return false;
    const std::lock_guard lock{mutex_};
    if (!open_) return false;
    if (!closes_at_exit_) {
      // Runs before HIP's own handlers, which the first use of HIP registered earlier.
      if (std::atexit([] { only<retirement_queue>().close(); }) != 0) return false;
      closes_at_exit_ = true;
    }
    const bool has_chunks = item.allocation.empty();
    // hipFree waits for its device even if captures forbid the wait.
    if (!has_chunks) std::erase(item.devices, item.owner);
    lane& to = item.mark ? events_ : lane_of(item.owner);
    if (!to.thread.start()) return false;
    item.bytes = item.allocation.bytes();
    // Only backings have a range: callers wait for mapped bytes, not for addresses alone.
    if (!has_chunks) item.of_devices[item.owner] = item.bytes;
    if (!item.backings.empty()) {
      item.range = item.addresses.get();
      item.first = item.backings.begin()->first;
      const auto& [last_offset, last] = *item.backings.rbegin();
      item.end = last_offset + last.bytes();
      for (const auto& entry : item.backings) {
        const physical_chunk& chunk = entry.second.chunk;
        if (chunk.empty()) continue;
        item.bytes += chunk.bytes();
        if (!chunk.location().is_host()) item.of_devices[chunk.device()] += chunk.bytes();
      }
    }
    item.number = ++last_number_;
    statistics_.waiting_bytes += item.bytes;
    item.has_token = item.token != nullptr;
    if (!item.has_token) ++statistics_.waiting;
    to.items.splice(to.items.end(), one);
  } catch (const std::exception&) {
    return false;
  }
  changed_.notify_all();
  return true;
}

retirement_queue::lane& retirement_queue::lane_of(device_ref device) {
  for (device_lane& each : devices_) {
    if (each.device == device) return each;
  }
  return devices_.emplace_back(*this, device);
}

// To the device's thread: hipFree waits for the device, which would delay other memory here.
bool retirement_queue::pass_on(retired_list::iterator item) noexcept {
  try {
    lane& to = lane_of(item->owner);
    if (!to.thread.start()) return false;
    item->devices.clear();
    to.items.splice(to.items.end(), events_.items, item);
  } catch (const std::exception&) {
    return false;
  }
  changed_.notify_all();
  return true;
}

template <typename Of>
std::size_t retirement_queue::sum(Of of) const {
  std::size_t result = 0;
  for (const retired_item& each : events_.items) result += of(each);
  for (const device_lane& of_device : devices_)
    for (const retired_item& each : of_device.items) result += of(each);
  return result;
}

template <typename Predicate>
std::size_t retirement_queue::bytes_of(Predicate matters) const {
  return sum([&](const retired_item& each) { return matters(each) ? each.bytes : 0; });
}

std::size_t retirement_queue::waiting_bytes_of(device_ref device) const {
  if (process_.is_of_parent()) return 0;
  const std::lock_guard lock{mutex_};
  return sum([&](const retired_item& each) { return each.bytes_of(device); });
}

template <typename Predicate>
bool retirement_queue::wait_until_left(lock_type& lock, std::size_t most, Predicate matters) {
  const clock::time_point began = clock::now();
  // The threads notify after each refusal.
  const auto goes_on = [&](const retired_item& item) {
    return matters(item) &&
           (!item.refused_since ||
            clock::now() - std::max(began, *item.refused_since) < capture_patience);
  };
  bool few = false;
  ++waiting_callers_;
  changed_.wait(lock, [&] {
    few = sum(matters) <= most;
    return few || sum(goes_on) == 0;
  });
  --waiting_callers_;
  return few;
}

template <typename Predicate>
void retirement_queue::wait_while_any(Predicate matters) {
  if (releasing::is_set() || process_.is_of_parent()) return;
  lock_type lock{mutex_};
  const std::uint64_t newest = last_number_;
  const auto counts = [&](const retired_item& item) {
    return item.number <= newest && matters(item);
  };
  if (wait_until_left(lock, 0, counts)) return;
  const std::size_t stuck = bytes_of(counts);
  lock.unlock();
  throw hip_error{hipErrorStreamCaptureUnsupported, "hipDeviceSynchronize", stuck_text(stuck),
                  __FILE__, __LINE__};
}

bool retirement_queue::wait_for_one(const out_of_memory& shortage, std::uint64_t seen) {
  if (releasing::is_set() || process_.is_of_parent()) return false;
  lock_type lock{mutex_};
  const std::uint64_t newest = last_number_;
  const auto relieves = [&](const retired_item& item) {
    return item.number <= newest && !item.has_token &&
           (is_relieved_by(shortage.why(), item.owner.ordinal()) ||
            std::any_of(item.of_devices.begin(), item.of_devices.end(), [&](const auto& held) {
              return held.second != 0 && is_relieved_by(shortage.why(), held.first.ordinal());
            }));
  };
  const std::size_t before = sum(relieves);
  if (before == 0) return reclaimed_so_far() != seen;
  if (wait_until_left(lock, before - 1, relieves)) return true;
  const std::size_t stuck = bytes_of(relieves);
  lock.unlock();
  throw out_of_memory{shortage, stuck_text(stuck)};
}

void retirement_queue::release_item(lane& own, retired_list::iterator item, lock_type& lock) {
  lock.unlock();  // error handlers may use the library
  item->release();
  lock.lock();
  statistics_.waiting_bytes -= item->bytes;
  statistics_.returned_bytes += item->bytes;
  if (!item->has_token) {
    --statistics_.waiting;
    ++statistics_.returned;
    ++released_count;
  }
  own.items.erase(item);
  changed_.notify_all();
}

void retirement_queue::poll_events(const std::stop_token& stop) {
  using namespace std::chrono_literals;
  constexpr auto shortest = 20us;
  constexpr auto longest = 1000us;
  const releasing mark;
  lock_type lock{mutex_};
  for (auto delay = shortest;; delay = std::min(2 * delay, longest)) {
    if (!changed_.wait(lock, stop, [this] { return !events_.items.empty(); })) return;
    for (auto next = events_.items.begin(); next != events_.items.end();) {
      const auto item = next;
      lock.unlock();
      const work state = work_on(*item);
      lock.lock();
      ++next;
      if (state == work::not_to_be_waited_for) {
        note_refusal(*item);
        changed_.notify_all();
      } else {
        item->refused_since.reset();
      }
      if (state != work::passed) continue;
      if (item->allocation.empty() || !pass_on(item)) release_item(events_, item, lock);
      delay = shortest;
    }
    // After close() the remaining items stay mapped.
    if (stop.stop_requested()) return;
    changed_.wait_for(lock, stop, waiting_callers_ != 0 ? shortest : delay, [] { return false; });
  }
}

void retirement_queue::wait_for_devices(lane& own, const std::stop_token& stop) {
  using namespace std::chrono_literals;
  // Not shorter: each try invalidates the captures that began since the last one.
  constexpr auto shortest = 1ms;
  constexpr auto longest = 16ms;
  const releasing mark;
  retired_list& items = own.items;
  lock_type lock{mutex_};
  auto delay = shortest;
  while (changed_.wait(lock, stop, [&] { return !items.empty(); })) {
    // The wait may miss work on memory that is retired from now on.
    const std::uint64_t newest = last_number_;
    retired_item& first = items.front();
    const device_list& devices = first.devices;
    lock.unlock();
    const bool passed = wait_for(devices, first.has_reported);
    lock.lock();
    if (!passed) {
      for (retired_item& each : items) note_refusal(each);
      changed_.notify_all();
      if (stop.stop_requested()) return;
      changed_.wait_for(lock, stop, delay, [] { return false; });
      delay = std::min(2 * delay, longest);
      continue;
    }
    delay = shortest;
    for (retired_item& each : items) each.refused_since.reset();
    // The first is released last: `devices` is part of it.
    for (auto next = std::next(items.begin()); next != items.end() && next->number <= newest;) {
      const auto item = next++;
      if (item->devices == devices) release_item(own, item, lock);
    }
    release_item(own, items.begin(), lock);
  }
}

void retirement_queue::close() {
  // An error handler may call exit() in a thread of the queue.
  if (process_.is_of_parent() || releasing::is_set()) return;
  std::size_t left = 0;
  {
    lock_type lock{mutex_};
    open_ = false;
    const auto all = [](const retired_item&) { return true; };
    if (!wait_until_left(lock, 0, all)) left = bytes_of(all);
  }
  events_.thread.stop();
  for (device_lane& each : devices_) each.thread.stop();
  if (left != 0)
    warn("retired memory", format_bytes(left) +
                               " stay mapped while the process exits, because HIP refuses to "
                               "wait for devices, as it does while a stream is being captured");
}

/// Adds `item` with `what` as its member `of`. Returns false, nothing done, if the queue is closed,
/// or without a thread or host memory.
template <typename Held>
bool retire_as(Held retired_item::*of, Held& what, retired_item item) noexcept {
  try {
    retirement_queue& all = only<retirement_queue>();
    retired_list one;
    one.push_back(std::move(item));
    std::swap(one.front().*of, what);
    if (all.add(one)) return true;
    std::swap(one.front().*of, what);
  } catch (const std::exception&) {
  }
  return false;
}

}  // namespace

void retired_item::release() noexcept {
  {
    chunk_cache cache{std::move(cache_state)};
    if (addresses) recycle_all(backings, std::move(addresses), cache);
  }
  allocation = {};
  mark.reset();
  token.reset();
}

bool retire_backings(backing_map& backings, std::shared_ptr<address_range> around,
                     const chunk_cache& destination, std::optional<event> passed,
                     device_list using_devices, device_ref owner) noexcept {
  return retire_as(
      &retired_item::backings, backings,
      {std::move(around), destination, std::move(passed), std::move(using_devices), owner});
}

bool retire_allocation(device_allocation& allocation, std::optional<event> mark,
                       device_list devices) noexcept {
  const device_ref owner = allocation.device();
  return retire_as(&retired_item::allocation, allocation,
                   {nullptr, chunk_cache::shared(), std::move(mark), std::move(devices), owner});
}

bool retire_token(std::shared_ptr<void>& token, device_list devices) noexcept {
  const device_ref owner = devices.front();
  return retire_as(&retired_item::token, token,
                   {nullptr, chunk_cache::shared(), std::nullopt, std::move(devices), owner});
}

void release_when_unused(device_allocation unused, device_list devices) noexcept {
  if (unused.empty()) return;
  try {
    if (retire_allocation(unused, std::nullopt, devices)) return;
  } catch (const std::bad_alloc&) {  // of the copy of `devices`
  }
  std::erase(devices, unused.device());  // ~device_allocation waits for it
  if (wait_past_captures(devices)) return;
  const std::size_t bytes = unused.bytes();
  static_cast<void>(unused.release());
  report_exceptions([bytes] { throw std::runtime_error{stuck_text(bytes)}; });
}

void finish_retired(const address_range& range, std::size_t offset, std::size_t bytes) {
  only<retirement_queue>().wait_while_any([&](const retired_item& item) {
    return item.range == &range && item.first < offset + bytes && offset < item.end;
  });
}

std::size_t retired_bytes(device_ref device) {
  return only<retirement_queue>().waiting_bytes_of(device);
}

std::uint64_t retired_so_far() noexcept { return released_count; }

bool reclaim_retired(const out_of_memory& shortage, std::uint64_t seen, const idle_request& asks) {
  if (without_reclaim::is_set()) return false;
  if (ask_idle_holders(shortage, asks) || only<retirement_queue>().wait_for_one(shortage, seen) ||
      outlast_wait_by_free(shortage.why()) || make_room_within_limit(shortage, asks.bytes))
    return true;
  struct shortage now = shortage.why();
  if (now.cause == exhausted::budget) now.available = chunk_bytes_left(device_ref{now.device});
  // Other processes made some room; this one may have the rest.
  return now.available > shortage.why().available && ask_idle_holders(out_of_memory{now}, asks);
}

}  // namespace detail

retirement_statistics retired_memory() {
  if (!detail::is_queue_made) return {};
  return detail::only<detail::retirement_queue>().statistics();
}

void drain_retired_memory() {
  if (detail::is_queue_made)
    detail::only<detail::retirement_queue>().wait_while_any(
        [](const detail::retired_item&) { return true; });
  for (const auto met : {detail::refusals::pass, detail::refusals::wait})
    detail::retry_refused_ends(met);
}

}  // namespace hipvmm
