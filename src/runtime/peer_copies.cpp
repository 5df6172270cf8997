// SPDX-License-Identifier: MIT
#include "runtime/peer_copies.hpp"

#include <array>
#include <atomic>
#include <cstddef>

namespace hipvmm::detail {
namespace {

// More than any runtime has.
constexpr std::size_t most_devices = 256;

using flags = std::array<std::atomic<bool>, most_devices>;
// Begins as false everywhere: static storage.
std::array<flags, most_devices> copied;

std::size_t index_of(device_ref device) noexcept {
  return static_cast<std::size_t>(device.ordinal()) % most_devices;
}

void set(std::atomic<bool>& flag) noexcept {
  // Read first: a line that is not written stays in the caches of all threads.
  if (!flag.load(std::memory_order_relaxed)) flag.store(true, std::memory_order_release);
}

}  // namespace

void note_peer_copy(device_ref one, device_ref other) noexcept {
  if (one == other) return;
  set(copied[index_of(one)][index_of(other)]);
  set(copied[index_of(other)][index_of(one)]);
}

std::optional<device_ref> next_copied_with(device_ref device, int after) noexcept {
  const flags& with = copied[index_of(device)];
  for (std::size_t other = static_cast<std::size_t>(after + 1); other < most_devices; ++other) {
    if (with[other].load(std::memory_order_acquire)) return device_ref{static_cast<int>(other)};
  }
  return std::nullopt;
}

}  // namespace hipvmm::detail
