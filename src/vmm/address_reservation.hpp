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

/// The chunks with memory that one reservation holds until it is freed, whether or not they are
/// mapped, and for any owner: if the device returns memory only with addresses, all that were ever
/// mapped in it.
/// Chunks without a charge (imported, retained, memory of the host) are not among them.
class chunk_pins {
 public:
  chunk_pins() noexcept = default;
  ~chunk_pins() { end(); }
  chunk_pins(chunk_pins&& other) noexcept
      : charges_{std::move(other.charges_)}, bytes_{other.bytes_.exchange(0)} {}
  chunk_pins& operator=(chunk_pins&&) = delete;  // would forget pins

  /// `chunk` is about to be mapped in the reservation. Returns whether it is new there.
  /// Throws: std::bad_alloc.
  bool add(const physical_chunk& chunk);
  /// HIP refused to map it.
  void remove(const physical_chunk& chunk) noexcept;
  /// Also while another thread calls the other functions.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The reservation was freed: memory that nothing else pins returns to the device when its chunk
  /// is released. Caches release chunks that they kept only because of pins.
  void end() noexcept;
  /// HIP has forgotten the reservation, which it did not free: its memory stays counted.
  void stay() noexcept;

 private:
  std::unordered_set<std::shared_ptr<chunk_charge>> charges_;
  std::atomic<std::size_t> bytes_{0};  // of them
};

/// hipMemMap reported success in `addresses`, and nothing is mapped there. HIP 7.0 to 7.2 keep a
/// record of such a map, which the next reservation of the same addresses inherits: later mappings
/// there cannot be granted or unmapped (refused_map_stays in docs/guides/rocm.md). The record ends
/// with that reservation, so whoever frees `addresses` reserves and frees them once more for each.
/// Thread-safe.
void note_failed_map(const address_reservation& addresses) noexcept;

/// Addresses that the library has reserved. Thread-safe.
struct reserved_addresses {
  std::size_t count;
  std::size_t bytes;
};
[[nodiscard]] reserved_addresses all_reserved() noexcept;

/// Returns whether so many bytes of addresses can be reserved now. No other thread of the library
/// finds them taken meanwhile. Throws: hip_error.
[[nodiscard]] bool can_reserve(std::size_t bytes);

/// Frees addresses. Returns whether they are free, or were empty. After a refusal, which the error
/// handler gets if this `reports`, they are empty if HIP has lost its record of them. Of those that
/// `is_waited_for`, the work ended before a wait for each device with access:
/// - In clr 6.1 to 6.4 a stream that nobody waited for before hipStreamDestroy keeps its last
///   commands for good, and with them the record of the addresses that they used
///   (unwaited_stream in docs/guides/rocm.md). HIP takes the next reservation that starts there for
///   the old one: it maps, grants and frees in the old size. So the start of such addresses is
///   never freed. Nothing meets the old record then, because HIP looks addresses up by the closest
///   start below them.
/// - Not for addresses that a stream may have used last and nobody waited for: the look takes from
///   the record that the stream's next command releases.
[[nodiscard]] bool free_or_report(address_reservation& addresses, bool is_waited_for,
                                  bool reports) noexcept;

/// Reserves addresses that nobody gets without naming them, for those that reclaim_pinned() is to
/// free for a moment, or load_checkpoint() to find free in another process: the system gives the
/// highest that are free, or the lowest from a third of the address space on, and these are below.
/// If they are not to be had, any others. Throws: as address_reservation.
[[nodiscard]] address_reservation reserve_private_range(std::size_t bytes);
/// The address that reserve_private_range() asks for next, which the caller gets alone unless all
/// were given; null if so many bytes are not there.
[[nodiscard]] void* next_aside(std::size_t bytes);
/// The caller has reserved these without next_aside(), which returns addresses behind them now.
void note_taken_aside(const void* address, std::size_t bytes) noexcept;

enum class reclaim_result : unsigned char {
  done,       ///< freed, and reserved again
  refused,    ///< HIP did not free them: all stays
  lost,       ///< freed, and others got them before they were reserved again
  forgotten,  ///< HIP did not free them and has lost its record of them: their memory stays for
              ///< good
};

/// Frees the addresses, so that memory returns that only they hold, and reserves the same again.
/// `addresses` is empty if they are lost or forgotten. Refusals of HIP are reported. Pre: nothing
/// is mapped in them, and all work that used them was waited for.
[[nodiscard]] reclaim_result reclaim_pinned(address_reservation& addresses) noexcept;

}  // namespace hipvmm::detail
