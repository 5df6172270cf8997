// SPDX-License-Identifier: MIT
#include "runtime/device_gate.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>

#include "core/owner_process.hpp"

namespace hipvmm::detail {
namespace {

std::atomic<bool> counts_ending_streams{true};
std::atomic<std::optional<bool>> free_waits{};

/// One lock for each device (with others beyond the array): shared by waits for it, held alone
/// while a stream ends that they may miss.
struct device_gates {
  std::array<std::shared_mutex, 64> locks;
  std::shared_mutex pools;  // shared by searches, held alone while a pool is created or destroyed
  const ::pid_t process = ::getpid();
};

/// Null in a child of fork(), which may lack the thread that holds a lock.
device_gates* all_gates() {
  static never_destroyed<device_gates> all;
  return all.get().process == ::getpid() ? &all.get() : nullptr;
}

std::shared_mutex* gate_of(int device) {
  device_gates* const all = all_gates();
  return all == nullptr ? nullptr
                        : &all->locks[static_cast<std::size_t>(device) % all->locks.size()];
}

}  // namespace

pool_search::pool_search() {
  if (device_gates* const all = all_gates()) no_change_ = std::shared_lock{all->pools};
}

std::unique_lock<std::shared_mutex> keep_pool_searches_out() noexcept {
  device_gates* const all = all_gates();
  if (all == nullptr) return {};
  std::unique_lock alone{all->pools, std::try_to_lock};
  const auto end = std::chrono::steady_clock::now() + pool_patience;
  while (!alone && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds{100});
    static_cast<void>(alone.try_lock());
  }
  return alone.owns_lock() ? std::move(alone) : std::unique_lock<std::shared_mutex>{};
}

void set_device_wait_rules(device_wait_rules rules) noexcept {
  counts_ending_streams.store(rules.counts_ending_streams, std::memory_order_relaxed);
  free_waits.store(rules.free_waits, std::memory_order_relaxed);
}

bool waits_count_ending_streams() noexcept {
  return counts_ending_streams.load(std::memory_order_relaxed);
}

std::optional<bool> frees_wait() noexcept { return free_waits.load(std::memory_order_relaxed); }

device_wait::device_wait(int device) {
  if (waits_count_ending_streams()) return;
  if (std::shared_mutex* const gate = gate_of(device)) no_end_ = std::shared_lock{*gate};
}

std::unique_lock<std::shared_mutex> keep_waits_out(int device) noexcept {
  std::shared_mutex* const gate = gate_of(device);
  return gate != nullptr ? std::unique_lock{*gate} : std::unique_lock<std::shared_mutex>{};
}

}  // namespace hipvmm::detail
