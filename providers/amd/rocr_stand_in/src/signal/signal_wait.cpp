// SPDX-License-Identifier: MIT
#include "src/signal/signal_wait.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "src/base/clock.hpp"
#include "src/signal/signal_handlers.hpp"

namespace stand_in {
namespace {

// Threads that wait for a signal share a lock with few others.
struct bucket {
  std::mutex lock;
  std::condition_variable changed;
};
constexpr std::size_t bucket_count = 64;
std::array<bucket, bucket_count>& buckets() {
  static auto* made = new std::array<bucket, bucket_count>;
  return *made;
}
bucket& bucket_of(hsa_signal_t handle) { return buckets()[handle.handle / 128 % bucket_count]; }

bucket& any_bucket() {
  static auto* made = new bucket;
  return *made;
}
std::atomic<std::uint32_t> any_waiters{0};

void wake(bucket& each) {
  { std::lock_guard guard(each.lock); }
  each.changed.notify_all();
}

constexpr auto look_again = std::chrono::microseconds(200);
}  // namespace

void signal_changed(hsa_signal_t handle) {
  signal& changed = *signal_of(handle);
  if (changed.waiters.load() != 0) wake(bucket_of(handle));
  if (any_waiters.load() != 0) wake(any_bucket());
  if (changed.handlers.load() != 0) wake_handlers();
}

void signal_memory_changed() {
  wake_waiters();
  wake_handlers();
}

bool wait_for_signal(hsa_signal_t handle, const std::function<bool()>& ready,
                     std::uint64_t deadline, const std::atomic<bool>* stop) {
  if (ready()) return true;
  signal& waited = *signal_of(handle);
  bucket& mine = bucket_of(handle);
  std::unique_lock guard(mine.lock);
  waited.waiters.fetch_add(1);
  bool done = ready();
  while (!done) {
    if (stop != nullptr && stop->load()) break;
    const std::uint64_t time = now();
    if (deadline != 0 && time >= deadline) break;
    if (waited.pointer_taken.load()) {
      mine.changed.wait_for(guard, look_again);
    } else if (deadline != 0) {
      mine.changed.wait_for(
          guard, std::chrono::nanoseconds(std::min<std::uint64_t>(deadline - time, 1000000000)));
    } else {
      mine.changed.wait(guard);
    }
    done = ready();
  }
  waited.waiters.fetch_sub(1);
  return done;
}

bool wait_for_any_zero(const hsa_signal_t* handles, std::size_t count,
                       const std::atomic<bool>* stop) {
  const auto ready = [&] {
    bool none = true;
    for (std::size_t i = 0; i < count; ++i) {
      if (handles[i].handle == 0) continue;
      if (load_signal(handles[i]) == 0) return true;
      none = false;
    }
    return none;
  };
  if (ready()) return true;
  bucket& mine = any_bucket();
  std::unique_lock guard(mine.lock);
  any_waiters.fetch_add(1);
  bool done = ready();
  while (!done && (stop == nullptr || !stop->load())) {
    mine.changed.wait(guard);
    done = ready();
  }
  any_waiters.fetch_sub(1);
  return done;
}

bool wait_for_all_zero(const hsa_signal_t* handles, std::size_t count,
                       const std::atomic<bool>* stop) {
  for (std::size_t i = 0; i < count; ++i) {
    const hsa_signal_t each = handles[i];
    if (each.handle == 0) continue;
    if (!wait_for_signal(
            each, [each] { return load_signal(each) == 0; }, 0, stop))
      return false;
  }
  return true;
}

void wake_waiters() {
  for (bucket& each : buckets()) wake(each);
  wake(any_bucket());
}

void complete_signal(hsa_signal_t handle, std::uint64_t start, std::uint64_t end) {
  if (handle.handle == 0) return;
  signal& done = *signal_of(handle);
  done.shared.start_ts = start;
  done.shared.end_ts = end;
  __atomic_fetch_sub(&done.shared.value, 1, __ATOMIC_SEQ_CST);
  signal_changed(handle);
}

}  // namespace stand_in
