// SPDX-License-Identifier: MIT
#include "core/device_wait.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/device_identity.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::detail {
namespace {

std::atomic<bool> counts_ending_streams{true};

enum class answer : unsigned char { open, no, yes };
std::atomic<answer> free_waits{answer::open};

bool is_waited_by_free() {
  const answer known = free_waits.load(std::memory_order_relaxed);
  return known == answer::yes ||
         (known == answer::open && hip_compat::is_cuda_version(runtime_version()));
}

/// One lock for each device: shared by waits for it, held alone while a stream ends that may be
/// overlooked. Devices beyond the array share locks, which costs time and nothing else.
struct device_gates {
  std::array<std::shared_mutex, 64> locks;
  // A child of fork() may find locks held by threads that it does not have.
  const ::pid_t process = ::getpid();
};

/// Null in a child of fork(), where the gates may be shut for good.
std::shared_mutex* gate_of(device_ref device) {
  static device_gates& all = *new device_gates;
  if (all.process != ::getpid()) return nullptr;
  return &all.locks[static_cast<std::size_t>(device.ordinal()) % all.locks.size()];
}

/// Waits for the stream. Returns false where that cannot be.
bool finish(stream_ref stream) noexcept {
  try {
    const relaxed_captures relaxed;
    if (is_captured(stream)) return false;
    stream.synchronize();
    return true;
  } catch (const hip_error&) {
    // hipStreamDestroy says what is wrong.
    return false;
  }
}

}  // namespace

void set_device_wait_rules(device_wait_rules rules) noexcept {
  counts_ending_streams.store(rules.counts_ending_streams, std::memory_order_relaxed);
  const answer known = !rules.free_waits   ? answer::open
                       : *rules.free_waits ? answer::yes
                                           : answer::no;
  free_waits.store(known, std::memory_order_relaxed);
}

void wait_for_device(device_ref device) {
  if (is_waited_by_free()) {
    try {
      if (wait_by_free(device)) return;
    } catch (const hip_error&) {
      // The call below fails as well, or waits.
    }
  }
  device.synchronize();
}

device_wait::device_wait(device_ref device) {
  if (counts_ending_streams.load(std::memory_order_relaxed)) return;
  if (std::shared_mutex* const gate = gate_of(device)) no_end_ = std::shared_lock{*gate};
}

stream_end::stream_end(stream_ref stream, device_ref device) noexcept
    : device_{device},
      may_be_overlooked_{!counts_ending_streams.load(std::memory_order_relaxed) &&
                         !finish(stream)} {}

void stream_end::begin() noexcept {
  if (!may_be_overlooked_) return;
  if (std::shared_mutex* const gate = gate_of(device_)) no_wait_ = std::unique_lock{*gate};
}

}  // namespace hipvmm::detail
