// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

/// Mappings in one address range that HIP refused to unmap, and the chunks that only they use. The
/// range's owner unmaps them before it maps there, or retry_refused_ends() does. Thread-safe.
class refused_unmaps {
 public:
  struct entry {
    ~entry() {
      if (!map.empty() && is_doubtful) resolve_doubt();
    }
    entry& operator=(entry&&) = delete;
    /// Throws: hip_error; then it is still held.
    void unmap();
    /// Gives the mapping up unless HIP confirms that it exists.
    void resolve_doubt() noexcept;

    physical_chunk chunk;  // released when no longer mapped here
    mapping map;
    ihipMemGenericAllocationHandle* mapped = nullptr;  // the chunk's, which may be in use elsewhere
    // HIP did not answer the query that verifies the map. An unmap of addresses without a mapping
    // ends the process up to ROCm 6.4.
    bool is_doubtful = false;
    device_ref owner{0};
  };
  using list = std::list<entry>;

  /// Tries again to unmap, and reports refusals of HIP.
  ~refused_unmaps();
  refused_unmaps& operator=(refused_unmaps&&) = delete;

  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  /// `mapped` is the chunk's handle. A refusal is reported, and the mapping kept here with `owned`,
  /// a chunk that nobody else uses.
  void unmap_or_defer(mapping& map, ihipMemGenericAllocationHandle* mapped,
                      physical_chunk* owned = nullptr) noexcept;
  /// Throws: hip_error if HIP does not know `made`; also if HIP does not answer, and then keeps it.
  void verify_or_keep(mapping& made, const physical_chunk& chunk,
                      const address_reservation& addresses);
  /// Takes over `chunk` if it is mapped here: nobody may use it again. Returns whether it did.
  bool take_if_mapped(physical_chunk& chunk) noexcept;
  /// Throws: hip_error if HIP still refuses a mapping that is partly in [address, address + bytes).
  /// Other refusals, which were reported, change nothing.
  void retry(const void* address, std::size_t bytes);
  /// Takes out those partly in [address, address + bytes).
  [[nodiscard]] list take(const void* address, std::size_t bytes) noexcept;
  void put_back(list& taken) noexcept;

  template <typename Visit>
  void for_each(Visit visit) const {
    if (empty()) return;
    const std::lock_guard lock{mutex_};
    for (const entry& each : entries_) visit(each.map.get(), each.map.bytes());
  }

 private:
  class retried;
  /// Between this and `retried`, which others end.
  struct link {
    std::mutex mutex;
    refused_unmaps* of;  // null: gone
  };

  /// `complete(entry)` sets the rest. Does nothing without memory of the host.
  template <typename Complete>
  void keep(mapping& map, ihipMemGenericAllocationHandle* mapped, Complete complete) noexcept;
  /// For retry_refused_ends(); false without memory of the host. Pre: mutex_ is held.
  bool list_for_others() noexcept;
  /// Stops at a refusal. Returns whether none is left, or a request may be tried again.
  [[nodiscard]] bool unmap_for_others(list& unmapped) noexcept;

  mutable std::mutex mutex_;
  list entries_;
  std::shared_ptr<link> link_;  // while others try
  std::atomic<std::size_t> count_{0};
};

}  // namespace hipvmm
