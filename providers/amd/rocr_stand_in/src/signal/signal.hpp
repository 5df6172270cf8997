// SPDX-License-Identifier: MIT
// A signal: an amd_signal_t, which libamdhip64 reads, and the place of its memory.
#pragma once

#include <atomic>
#include <cstdint>

#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>

namespace stand_in {

/// One signal; the handle points at `shared`.
struct signal {
  amd_signal_t shared;
  std::atomic<std::uint32_t> waiters{0};
  std::atomic<std::uint32_t> handlers{0};
  // Its value may be written through the pointer, without a call that would wake waiting threads.
  std::atomic<bool> pointer_taken{false};
};

inline signal* signal_of(hsa_signal_t handle) { return reinterpret_cast<signal*>(handle.handle); }

hsa_signal_t create_signal(std::int64_t value);
/// A later signal reuses the memory.
void destroy_signal(hsa_signal_t handle);

/// Memory of signals is open to every agent.
bool is_signal_memory(std::uint64_t address);

std::int64_t load_signal(hsa_signal_t handle);
bool condition_holds(hsa_signal_condition_t condition, std::int64_t value, std::int64_t compare);

}  // namespace stand_in
