// SPDX-License-Identifier: MIT
#pragma once

#include "address_map.hpp"

namespace hipvmm::host_provider {

inline address address_of(const void* pointer) noexcept {
  return reinterpret_cast<address>(pointer);
}

inline void* pointer_to(address at) noexcept {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

/// Whether it is host memory made for devices to use, which has the same address on all of them.
inline bool is_pinned(const region& found) noexcept {
  return found.kind == memory_kind::host_allocation || found.kind == memory_kind::registration;
}

/// Marks memory of the host as hipMallocSignalMemory, which hipFree frees.
inline constexpr unsigned signal_mark = 0x08000000;
inline bool is_signal(const region& found) noexcept {
  return found.kind == memory_kind::host_allocation && (found.flags & signal_mark) != 0;
}

/// The flags that HIP tells of memory, which are those it was given or what CUDA makes of them.
inline unsigned told_flags_of(const profile& rules, const region& found) noexcept {
  constexpr unsigned kept = hipHostMallocPortable | hipHostMallocWriteCombined;
  if (is_signal(found)) return found.flags & ~signal_mark;
  const bool as_given = rules.pinned_flags == told_flags::as_given || !is_pinned(found);
  return as_given ? found.flags : (found.flags & kept) | hipHostMallocMapped;
}

}  // namespace hipvmm::host_provider
