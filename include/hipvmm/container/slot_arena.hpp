// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>

#include <hipvmm/container/slot_arena_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class slot_allocator;
}  // namespace detail

/// One reservation of slots, each of which grows in place: the shape of a KV cache. A slot has a
/// range of addresses in each plane, which the arena backs with blocks of one chunk each. Addresses
/// are constant: pointer(slot, plane) = base() + plane * plane_stride() + slot * slot_stride().
/// - As thread-safe as a std container: no two threads may use an arena at the same time. Kernels
///   and copies may use committed bytes throughout.
/// - A released slot keeps its blocks mapped, for its own next sequence or for other slots.
/// - Contents of new bytes of a slot are indeterminate.
/// - Destruction does not wait: memory is retired, see region::retire().
class slot_arena {
 public:
  /// Reserves the addresses of all slots; backs none. Throws: std::invalid_argument, which names
  /// the option; std::length_error; out_of_memory if HIP lacks addresses; unsupported on a device
  /// without usable virtual memory; for `options.access` as access_map::set.
  slot_arena(device_ref device, const slot_arena_options& options);
  ~slot_arena();
  slot_arena(slot_arena&& other) noexcept;
  slot_arena& operator=(slot_arena&& other) noexcept;

  /// Takes a free slot, with length zero, for work of `stream`: of those whose previous work has
  /// passed, the one with most blocks mapped (packed: with most in common with slots in use), else
  /// one for whose previous work `stream` waits. Throws: out_of_memory (exhausted::limit) if all
  /// are in use; hip_error; std::invalid_argument if `stream` would have to wait and is captured.
  [[nodiscard]] std::size_t acquire(stream_ref stream);

  /// Makes slot `slots[i]` at least `lengths[i]` bytes long in each plane, for all i < count, or
  /// changes nothing. A free slot becomes one in use.
  /// - A step within mapped blocks, prefetched ones included, makes no HIP call.
  /// - Missing blocks come from, in this order: kept chunks; blocks that released and truncated
  ///   slots left, after their work has passed; new memory. If none is left, the caller waits for
  ///   work before a release or truncation, then calls `evict`, then fails.
  /// - Work of `stream` after the call may use the bytes. Another stream waits for an event
  ///   recorded in `stream`, if the slot was released or truncated before.
  /// Throws (all lengths stay): std::out_of_range, which names the slot or length; out_of_memory,
  /// which names the held bytes and the batch's; hip_error; exceptions of `evict`;
  /// std::invalid_argument for a null array, and if `stream` would have to wait and is captured.
  void commit(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
              stream_ref stream);
  /// For containers or braced lists of std::size_t. std::invalid_argument if their sizes differ.
  template <class Slots = std::initializer_list<std::size_t>,
            class Lengths = std::initializer_list<std::size_t>>
  void commit(const Slots& slots, const Lengths& lengths, stream_ref stream) {
    require_same_size(std::size(slots), std::size(lengths));
    commit(std::data(slots), std::data(lengths), std::size(slots), stream);
  }

  /// Frees the slot: others use its memory when `stream` has passed this point. Does not wait.
  /// Pre: all work that uses the slot is ordered before this call in `stream`.
  /// Throws (then nothing changed): std::out_of_range; std::invalid_argument for a free slot, if
  /// `stream` is captured, and if it is of a device without access; hip_error.
  void release(std::size_t slot, stream_ref stream);
  /// Shortens the slot to `length` bytes in each plane. The memory behind stays mapped for its own
  /// growth; other slots may take it after `stream` has passed this point.
  /// Pre, Throws: as release(); std::invalid_argument for more than the present length.
  void truncate(std::size_t slot, std::size_t length, stream_ref stream);

  /// Gives slots `to`, which have no bytes and are in use then, the first `length` bytes of `from`.
  /// They map the same chunks, read-only for devices; a part of a block is copied, in `stream`.
  /// - Work must not write to them in `from` either, without make_writable() first.
  /// - The memory stays while any of the slots has it, in any order of releases.
  /// - Waits for work before the release of a slot of `to` that has blocks mapped.
  /// Pre: work that wrote the bytes is ordered before this call in `stream`.
  /// Throws (the slots of `to` have no bytes, free slots stay free): std::out_of_range;
  /// std::invalid_argument for a free `from`, a slot of `to` with bytes, a captured stream and
  /// null; unsupported if a device shows other bytes at a second address of a chunk, and for packed
  /// slots; out_of_memory; hip_error, also for a copy in a stream of a device without access.
  void share_prefix(std::size_t from, const std::size_t* to, std::size_t count, std::size_t length,
                    stream_ref stream);
  template <class Slots = std::initializer_list<std::size_t>>
  void share_prefix(std::size_t from, const Slots& to, std::size_t length, stream_ref stream) {
    share_prefix(from, std::data(to), std::size(to), length, stream);
  }
  /// Gives the slot memory of its own for the shared blocks that hold [offset, offset + bytes) in
  /// each plane: copies them, and waits for `stream`. Other slots keep their bytes.
  /// Pre: all work of the slot is ordered before this call in `stream`, and none is submitted
  /// before it returns. Throws (bytes stay): std::out_of_range beyond its length; out_of_memory;
  /// hip_error as share_prefix(); std::invalid_argument for a free slot and a captured stream.
  void make_writable(std::size_t slot, std::size_t offset, std::size_t bytes, stream_ref stream);

  /// The first byte of the slot in the plane. Throws: std::out_of_range.
  [[nodiscard]] void* pointer(std::size_t slot, std::size_t plane = 0) const;
  /// Bytes of the slot in each plane, zero for a free one. Throws: std::out_of_range.
  [[nodiscard]] std::size_t length(std::size_t slot) const;
  /// Bytes that the slot can have without another block. Throws: std::out_of_range.
  [[nodiscard]] std::size_t capacity(std::size_t slot) const;
  [[nodiscard]] bool in_use(std::size_t slot) const;

  /// Returns the number of free slots that could be committed to `length` bytes each now; zero if
  /// the one that acquire() returns could not. The limits are the budget, the device's
  /// memory_budget and free memory, the descriptors of the process, and spare blocks. Work before
  /// releases counts as passed. Throws: std::out_of_range; hip_error.
  [[nodiscard]] std::size_t slots_that_fit(std::size_t length) const;

  /// Changes slot_arena_options::evict; null for none. Throws: std::logic_error in the callback.
  void set_eviction(std::function<void(std::size_t missing_bytes)> evict);
  /// Changes the budget. Idle memory beyond it is released. Memory that lengths of slots need
  /// stays, and no commit adds memory until usage is below the budget.
  void set_budget(std::size_t bytes);
  /// Releases idle blocks. Returns the bytes that the device, or the program's cache, received.
  std::size_t trim();
  [[nodiscard]] slot_arena_statistics statistics() const;

  // As chosen at construction. Throw: std::invalid_argument if the arena was moved from.
  [[nodiscard]] void* base() const;
  [[nodiscard]] std::size_t slot_stride() const;   ///< bytes from slot to slot of a plane
  [[nodiscard]] std::size_t plane_stride() const;  ///< bytes from plane to plane
  [[nodiscard]] std::size_t slots() const;
  [[nodiscard]] std::size_t planes() const;
  [[nodiscard]] std::size_t bytes_per_slot() const;
  [[nodiscard]] std::size_t block_bytes() const;
  [[nodiscard]] device_ref device() const;

 private:
  [[nodiscard]] detail::slot_allocator& live() const;
  static void require_same_size(std::size_t slots, std::size_t lengths);

  std::unique_ptr<detail::slot_allocator> table_;
};

}  // namespace hipvmm
