// SPDX-License-Identifier: MIT
#include "vmm/idle/pressure_watch.hpp"

#include <limits>
#include <tuple>
#include <utility>

#include <hipvmm/vmm/chunk_cache.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "runtime/device.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/idle/idle_memory.hpp"
#include "vmm/idle/memory_changes.hpp"

namespace hipvmm::detail {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_notes = 64;
constexpr std::chrono::milliseconds measured_for{100};

std::size_t bytes_of(double fraction, std::size_t total) noexcept {
  // A double rounds the largest totals up to 2^64, which no size has.
  return fraction < 1 ? static_cast<std::size_t>(fraction * static_cast<double>(total)) : total;
}

pressure_level level_of(const pressure_bound& of, const pressure_options& by) noexcept {
  const std::size_t gap = bytes_of(by.hysteresis, of.total);
  for (const auto& [level, mark] :
       {std::pair{pressure_level::critical, by.critical}, std::pair{pressure_level::high, by.high},
        std::pair{pressure_level::low, by.low}}) {
    const std::size_t begins = std::max(mark.bytes, bytes_of(mark.fraction, of.total));
    const std::size_t room = level <= of.level ? of.free - std::min(of.free, gap) : of.free;
    if (begins != 0 && room <= begins) return level;
  }
  return pressure_level::none;
}

}  // namespace

pressure_watch::pressure_watch(device_ref of, callback to, const pressure_options& chosen)
    : device{of}, options{chosen}, call_{std::move(to)} {
  bounds_[0].total = options.device_memory ? most_memory(device) : 0;
}

void pressure_watch::measure(std::unique_lock<std::mutex>& lock) {
  // A change by another thread meanwhile may or may not be in HIP's answer.
  const relaxed_captures relaxed;
  for (int attempts = 0; attempts < 4; ++attempts) {
    const std::uint64_t seen = changes_;
    lock.unlock();
    const std::size_t free = device.free_memory();
    lock.lock();
    bounds_[0].free = free;
    measured_at_ = clock::now();
    if (changes_ == seen) return;
  }
}

pressure_note pressure_watch::make_note(std::unique_lock<std::mutex>& lock, std::uint64_t& event) {
  const pressure_bound* tightest = nullptr;
  std::size_t free = std::numeric_limits<std::size_t>::max();
  std::size_t total = free;
  for (const pressure_bound& each : bounds_) {
    if (each.total == 0) continue;
    if (tightest == nullptr || each.level > tightest->level ||
        (each.level == tightest->level && each.free < tightest->free))
      tightest = &each;
    free = std::min(free, each.free);
    total = std::min(total, each.total);
  }
  if (tightest == nullptr) {
    tightest = &bounds_[0];
    free = total = 0;
  }
  std::optional<memory_event> reason;
  std::tie(reason, event) = only<memory_change_ring>().last(device, reported_event_);
  pressure_note made{device.ordinal(),
                     level(),
                     reported_,
                     tightest->cause,
                     tightest->total,
                     tightest->free,
                     0,
                     0,
                     0,
                     reason};
  lock.unlock();
  made.held_bytes = created_chunk_bytes(device);
  made.idle_bytes = idle_bytes_of(device) + chunk_cache::shared().statistics(device).bytes;
  // An evictable and its owner count the same memory. Slabs of hipMalloc are no chunks.
  if (made.held_bytes != 0) made.idle_bytes = std::min(made.held_bytes, made.idle_bytes);
  made.largest_request = std::min(total, free + made.idle_bytes);
  lock.lock();
  return made;
}

void pressure_watch::look(bool measures) {
  const callbacks_wait until_unlocked;  // callbacks may call look()
  const std::lock_guard turn{turn_};
  is_stale_ = false;  // a change from now on is for the next look
  // Not under mutex_: these take other locks.
  const std::size_t held = created_chunk_bytes(device);
  const std::size_t most = most_chunk_bytes(device);  // of a budget; 0: none
  const std::size_t left = std::min(chunk_bytes_left(device), most);
  const auto update_levels = [&] {
    bounds_[1].total = most;
    bounds_[1].free = left;
    bounds_[2].total = options.limit;
    bounds_[2].free = options.limit - std::min(options.limit, held);
    for (pressure_bound& each : bounds_)
      each.level = each.total == 0 ? pressure_level::none : level_of(each, options);
  };
  std::unique_lock lock{mutex_};
  looked_at_ = clock::now();
  const auto before = bounds_[0].level;
  measures = measures || looked_at_ - measured_at_ >= measured_for;
  if (bounds_[0].total == 0) measures = false;
  if (measures) measure(lock);
  update_levels();
  if (bounds_[0].level != before && !measures) {
    bounds_[0].level = before;
    measure(lock);
    update_levels();
  }
  if (level() == reported_ || has_ended_) return;
  std::uint64_t event = 0;
  const pressure_note made = make_note(lock, event);
  if (has_ended_) return;
  notes_.push_back(made);  // first: if this throws, a later look reports it
  if (notes_.size() > most_notes) notes_.pop_front();
  reported_event_ = event;
  reported_ = made.level;
}

bool pressure_watch::deliver() noexcept {
  std::unique_lock lock{mutex_};
  if (!call_) {
    if (!notes_.empty()) changed_.notify_all();
    return false;
  }
  if (caller_ != std::thread::id{}) return false;  // that thread hands the rest on
  caller_ = std::this_thread::get_id();
  for (std::size_t left = notes_.size(); left != 0 && !notes_.empty(); --left) {
    const pressure_note next = notes_.front();
    notes_.pop_front();
    lock.unlock();
    {
      std::optional<scoped_device> scope;
      report_exceptions([&] { scope.emplace(device); });
      run_callback("pressure_subscription", [&] { call_(next); });
    }
    lock.lock();
  }
  caller_ = {};
  changed_.notify_all();
  return !notes_.empty();
}

void pressure_watch::end() noexcept {
  std::unique_lock lock{mutex_};
  has_ended_ = true;
  notes_.clear();
  changed_.notify_all();
  if (caller_ == std::this_thread::get_id()) return;
  changed_.wait(lock, [this] { return caller_ == std::thread::id{}; });
}

pressure_note pressure_watch::now() {
  look(true);
  std::unique_lock lock{mutex_};
  std::uint64_t event = 0;
  pressure_note made = make_note(lock, event);
  made.previous = made.level;
  return made;
}

std::optional<pressure_note> pressure_watch::take(std::chrono::milliseconds timeout) {
  if (call_) return std::nullopt;
  std::unique_lock lock{mutex_};
  if (timeout.count() > 0 && notes_.empty()) {
    lock.unlock();
    look(true);
    lock.lock();
    // The sum of now and the timeout must not overflow.
    constexpr std::chrono::milliseconds longest = std::chrono::hours{24 * 365};
    changed_.wait_for(lock, std::min(timeout, longest),
                      [this] { return !notes_.empty() || has_ended_; });
  }
  if (notes_.empty()) return std::nullopt;
  const pressure_note taken = notes_.front();
  notes_.pop_front();
  return taken;
}

}  // namespace hipvmm::detail
