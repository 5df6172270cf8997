// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/profile.hpp"
#include "memory/address.hpp"
#include "memory/chunk.hpp"
#include "memory/host_view.hpp"
#include "memory/managed_pages.hpp"

namespace hipvmm::host_provider {

enum class memory_kind {
  mapping,
  device_allocation,
  host_allocation,
  managed_allocation,
  imported_allocation,  ///< another process's device_allocation
  pool_block,           ///< of the stream-ordered allocator
  graph_allocation,     ///< of a graph, which it may outlive
  registration,         ///< the caller's own memory, after hipHostRegister
};
inline constexpr std::size_t memory_kinds = 8;

/// The users of memory that is lent in stream order, and the times of their use. Thread-safe.
/// Called with the map's lock held, so it must not call the map.
class tenancy {
 public:
  virtual ~tenancy() = default;
  /// Bytes from the start that work submitted now may name; 0 while nobody holds them.
  [[nodiscard]] virtual std::size_t bytes_held() const = 0;
  /// Bytes that work executed now may touch.
  [[nodiscard]] virtual std::size_t bytes_reached() const = 0;
  [[nodiscard]] virtual device_set devices_with(right needed) const = 0;
};

/// Never the number of an earlier range.
inline std::uint32_t next_range_number() noexcept {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

/// Memory that may be used as a whole: a mapping or an allocation. The address_map guards its
/// fields.
struct tracked_range {
  memory_kind kind;
  int device;  // owner; of host and managed memory, the device current when it was made
  address start;
  std::size_t bytes;         // that may be used
  std::size_t extent_bytes;  // that the address range takes
  unsigned flags;            // that host or managed memory was made with
  device_set readers;
  device_set writers;
  std::shared_ptr<chunk> memory;  // of a mapping or device allocation
  bool changing = false;          // protection or existence is being changed by one thread
  unsigned read_pins = 0;
  unsigned write_pins = 0;
  std::shared_ptr<managed_pages> pages = nullptr;  // of managed and registered memory
  std::shared_ptr<tenancy> tenant = nullptr;       // of memory of pools and graphs
  /// Until then copies and fills miss the mapping.
  std::chrono::steady_clock::time_point unseen_until{};
  bool opened = false;  // to all devices, by a copy between devices
  int host_rights = 0;  // PROT_ bits that the host was granted itself, of a mapping
  std::shared_ptr<const private_view> view = nullptr;
  /// Of a mapping that the plan of faults makes incoherent.
  std::shared_ptr<const stale_view> stale = nullptr;
  bool synchronous = false;  // fills and copies within a device have finished when a call returns
  std::uint32_t number = next_range_number();  // the buffer id of its pointers
};

/// Pages to map: of a file, or new ones without a file.
struct file_backing {
  int file = -1;
  off_t offset = 0;
};

/// Pinned host memory has the same address on all devices.
inline bool is_pinned(const tracked_range& found) noexcept {
  return found.kind == memory_kind::host_allocation || found.kind == memory_kind::registration;
}

/// Host memory of hipMallocSignalMemory, which hipFree frees.
inline constexpr unsigned signal_mark = 0x08000000;
inline bool is_signal(const tracked_range& found) noexcept {
  return found.kind == memory_kind::host_allocation && (found.flags & signal_mark) != 0;
}

/// The flags that HIP reports of memory: those it was given, or those that CUDA makes of them.
inline unsigned reported_flags_of(const profile& rules, const tracked_range& found) noexcept {
  constexpr unsigned kept = hipHostMallocPortable | hipHostMallocWriteCombined;
  if (is_signal(found)) return found.flags & ~signal_mark;
  const bool as_given = rules.pinned_flags == reported_flags::as_given || !is_pinned(found);
  return as_given ? found.flags : (found.flags & kept) | hipHostMallocMapped;
}

}  // namespace hipvmm::host_provider
