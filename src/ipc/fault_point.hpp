// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hipvmm::detail {

/// A hook for tests, called before the system call that `step` names. Returns 0, or the errno by
/// which that call fails. It may end the process.
using protocol_hook = int (*)(const char* step);

inline std::atomic<protocol_hook> protocol_step_hook{nullptr};

inline int fault_point(const char* step) {
  const protocol_hook hook = protocol_step_hook.load(std::memory_order_relaxed);
  return hook == nullptr ? 0 : hook(step);
}

}  // namespace hipvmm::detail
