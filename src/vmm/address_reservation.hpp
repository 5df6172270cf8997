// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>

#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::detail {

/// The chunks that were ever mapped in one reservation, on a device that returns memory only when
/// addresses are freed: their memory stays until then. Chunks without a charge (imported, retained,
/// memory of the host) are not among them.
class chunk_pins {
 public:
  chunk_pins() noexcept = default;
  ~chunk_pins() { end(); }
  chunk_pins(chunk_pins&& other) noexcept
      : charges_{std::move(other.charges_)}, bytes_{other.bytes_.exchange(0)} {}
  chunk_pins& operator=(chunk_pins&&) = delete;  // would forget pins

  /// Pre: `chunk` will be mapped next. Returns whether it is new here. Throws: std::bad_alloc.
  bool add(const physical_chunk& chunk);
  /// HIP refused to map it.
  void remove(const physical_chunk& chunk) noexcept;
  /// Any thread may call it beside the other functions.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The reservation was freed. Caches release chunks that they kept only because of its pins.
  void end() noexcept;
  /// HIP has forgotten the reservation without freeing it: the memory stays counted.
  void stay() noexcept;

 private:
  std::unordered_set<std::shared_ptr<chunk_charge>> charges_;
  std::atomic<std::size_t> bytes_{0};  // of them
};

/// hipMemMap succeeded in `addresses` and mapped nothing. HIP 7.0 to 7.2 keep a record of such a
/// map (refused_map_stays in docs/guides/rocm.md): in the next reservation of the same addresses,
/// HIP cannot grant or unmap later mappings. The record ends with that reservation, so a free of
/// `addresses` reserves and frees them once more for each. Thread-safe.
void note_failed_map(const address_reservation& addresses) noexcept;

/// Addresses that the library has reserved. Thread-safe.
struct reserved_addresses {
  std::size_t count;
  std::size_t bytes;
};
[[nodiscard]] reserved_addresses all_reserved() noexcept;

/// Reserves and frees so many bytes, in one step. Returns whether it could. Throws: hip_error.
[[nodiscard]] bool can_reserve(std::size_t bytes);

/// Frees addresses. Returns whether they are free, or were empty. If `reports`, the error handler
/// gets a refusal. After a refusal `addresses` are empty only if HIP has lost its record of them.
/// `is_waited_for`: after the last work there, the host waited for each device with access. Only
/// then does this check whether HIP keeps a record of the freed addresses, because the check takes
/// from a record that the next command of a stream would release.
/// In clr 6.1 to 6.4 a stream that nobody waited for before hipStreamDestroy keeps its last
/// commands for good, and with them the record of their addresses (unwaited_stream in
/// docs/guides/rocm.md). HIP takes the next reservation with that start for the old one: it maps,
/// grants and frees in the old size. So such a start stays reserved. Nothing meets the old record
/// then, because HIP looks addresses up by the closest start below them.
[[nodiscard]] bool free_or_report(address_reservation& addresses, bool is_waited_for,
                                  bool reports) noexcept;

/// Reserves addresses that the system gives only to those who name them; any others if there are
/// none. For ranges that reclaim_pinned() frees for a moment, or that load_checkpoint() must find
/// free in another process. Throws: as address_reservation.
[[nodiscard]] address_reservation reserve_private_range(std::size_t bytes);
/// The next address for reserve_private_range() or region_aside(): after the last one the first
/// again; null if `bytes` are more than half of these addresses.
[[nodiscard]] void* next_aside(std::size_t bytes);
/// The caller has reserved these itself: next_aside() returns addresses behind them from now on.
void note_taken_aside(const void* address, std::size_t bytes) noexcept;

enum class reclaim_result : unsigned char {
  done,       ///< freed, and reserved again
  refused,    ///< HIP did not free them: all stays
  lost,       ///< freed, and others got them before they were reserved again
  forgotten,  ///< HIP did not free them, and lost its record of them: their memory stays for good
};

/// Frees the addresses, so that memory returns that only they hold, and reserves the same again.
/// `addresses` is empty if they are lost or forgotten. The error handler gets refusals. Pre:
/// nothing is mapped in them, and all work that used them was waited for.
[[nodiscard]] reclaim_result reclaim_pinned(address_reservation& addresses) noexcept;

}  // namespace hipvmm::detail
