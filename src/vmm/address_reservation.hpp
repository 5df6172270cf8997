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

/// The chunks that were ever mapped in one reservation, on a device that returns memory only with
/// addresses. Chunks without a charge (imported, retained, memory of the host) do not count.
class chunk_pins {
 public:
  chunk_pins() noexcept = default;
  ~chunk_pins() { end(); }
  chunk_pins(chunk_pins&& other) noexcept
      : charges_{std::move(other.charges_)}, bytes_{other.bytes_.exchange(0)} {}
  chunk_pins& operator=(chunk_pins&&) = delete;  // would forget pins

  /// Pre: `chunk` is mapped next. Returns whether it is new here. Throws: std::bad_alloc.
  bool add(const physical_chunk& chunk);
  /// HIP refused to map the chunk.
  void remove(const physical_chunk& chunk) noexcept;
  /// Thread-safe.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The reservation was freed: caches release chunks that they kept only for its pins.
  void end() noexcept;
  /// HIP has lost the reservation without freeing it: the memory stays counted.
  void stay() noexcept;

 private:
  std::unordered_set<std::shared_ptr<chunk_charge>> charges_;
  std::atomic<std::size_t> bytes_{0};
};

/// hipMemMap succeeded in `addresses` and mapped nothing. HIP 7.0 to 7.2 then fail later mappings
/// of the next reservation there (refused_map_stays in docs/guides/rocm.md), so freeing `addresses`
/// reserves and frees them once more for each. Thread-safe.
void note_failed_map(const address_reservation& addresses) noexcept;

/// The addresses that the library has reserved. all_reserved() is thread-safe.
struct reserved_addresses {
  std::size_t count;
  std::size_t bytes;
};
[[nodiscard]] reserved_addresses all_reserved() noexcept;

/// Reserves and frees. Throws: hip_error.
[[nodiscard]] bool can_reserve(std::size_t bytes);

/// Returns whether the addresses are free, or were empty. If `reports`, the error handler gets a
/// refusal. After a refusal `addresses` are empty only if HIP has lost its record of them.
/// `is_waited_for`: the host has waited for the last work there, on each device with access. Then
/// this keeps a start reserved if HIP keeps the record of the freed addresses: clr 6.1 to 6.4 does
/// so for the last commands of a stream that nobody waited for (unwaited_stream in
/// docs/guides/rocm.md), and would take the next reservation with that start for the old one.
[[nodiscard]] bool free_or_report(address_reservation& addresses, bool is_waited_for,
                                  bool reports) noexcept;

/// Reserves addresses that the system gives only to those who name them, for reclaim_pinned() and
/// load_checkpoint(); without such ones any others. Throws: as address_reservation.
[[nodiscard]] address_reservation reserve_private_range(std::size_t bytes);
/// The next of these addresses, cyclically; null if `bytes` are more than half of them.
[[nodiscard]] void* next_aside(std::size_t bytes);
/// The caller has reserved these: next_aside() goes on behind them.
void note_taken_aside(const void* address, std::size_t bytes) noexcept;

enum class reclaim_result : unsigned char {
  done,       ///< freed, and reserved again
  refused,    ///< HIP did not free them: all stays
  lost,       ///< freed, and taken by others
  forgotten,  ///< not freed, and lost by HIP: their memory stays for good
};

/// Frees the addresses, so that memory returns that only they hold, and reserves the same again.
/// `addresses` is empty if they are lost or forgotten. The error handler gets refusals. Pre:
/// nothing is mapped there, and all work there was waited for.
[[nodiscard]] reclaim_result reclaim_pinned(address_reservation& addresses) noexcept;

}  // namespace hipvmm::detail
