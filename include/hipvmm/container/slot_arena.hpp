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

/// One reservation of slots that grow in place: the shape of a KV cache. A slot has a range of
/// addresses in each plane, which the arena backs with blocks of one chunk each. Addresses are
/// constant: pointer(slot, plane) = base() + plane * plane_stride() + slot * slot_stride().
/// - No two threads may use an arena at the same time. Kernels and copies may use committed bytes
///   throughout.
/// - A released slot keeps its blocks mapped, for its own next sequence or for other slots.
/// - Contents of new bytes of a slot are indeterminate.
/// - Destruction is as region::retire(). A moved-from arena throws std::invalid_argument.
class slot_arena {
 public:
  /// Reserves the addresses of all slots; backs none. Throws: std::invalid_argument, which names
  /// the option; std::length_error; out_of_memory if HIP lacks addresses; unsupported on a device
  /// without usable virtual memory; for `options.access` as access_map::set.
  slot_arena(device_ref device, const slot_arena_options& options);
  ~slot_arena();
  slot_arena(slot_arena&& other) noexcept;
  slot_arena& operator=(slot_arena&& other) noexcept;

  /// Takes a free slot for work of `stream`, which waits for the slot's previous work. Prefers
  /// slots without such work, then those with most mapped blocks (packed: blocks of slots in use).
  /// Throws: out_of_memory (exhausted::limit) if all are in use; hip_error; std::invalid_argument
  /// if `stream` has to wait and is captured.
  [[nodiscard]] std::size_t acquire(stream_ref stream);

  /// Makes slot `slots[i]` at least `lengths[i]` bytes long in each plane, for all i < count, or
  /// changes nothing. A free slot is in use then.
  /// - Growth within capacity() makes no HIP call, unless work before the slot's last release or
  ///   truncation may still run.
  /// - Missing blocks come from kept chunks, spare blocks whose work has passed, new memory, or
  ///   prefetched blocks. If none is left, the call waits for work before a release or truncation,
  ///   then calls `evict`, then fails.
  /// - Work of `stream` after the call may use the bytes. If the slot was released or truncated
  ///   before, other streams must wait for an event recorded in `stream` after the call.
  /// Throws (all lengths stay): std::out_of_range; out_of_memory; hip_error; exceptions of `evict`;
  /// std::invalid_argument for a null array, and if `stream` has to wait and is captured.
  void commit(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
              stream_ref stream);
  /// Throws: also std::invalid_argument if the sizes differ.
  template <class Slots = std::initializer_list<std::size_t>,
            class Lengths = std::initializer_list<std::size_t>>
  void commit(const Slots& slots, const Lengths& lengths, stream_ref stream) {
    require_same_size(std::size(slots), std::size(lengths));
    commit(std::data(slots), std::data(lengths), std::size(slots), stream);
  }

  /// Other slots may take the memory once `stream` has passed this point. Does not wait.
  /// Pre: all work that uses the slot is ordered before this call in `stream`.
  /// Throws (then nothing changed): std::out_of_range; std::invalid_argument for a free slot, if
  /// `stream` is captured, and if it is of a device without access; hip_error.
  void release(std::size_t slot, stream_ref stream);
  /// The memory behind `length` stays mapped, but other slots may take it as after release().
  /// Pre, Throws: as release(); std::invalid_argument for more than the present length.
  void truncate(std::size_t slot, std::size_t length, stream_ref stream);

  /// Gives the first `length` bytes of `from` to the slots `to`, of length zero, which are in use
  /// afterwards. They map the same chunks, read-only for devices; a part of a block is copied in
  /// `stream`. If a slot of `to` has blocks mapped, waits for the work before its release.
  /// - Before work writes to these bytes, in `from` too, call make_writable().
  /// - The memory stays while any of the slots has it, in any order of releases.
  /// Pre: work that wrote the bytes is ordered before this call in `stream`.
  /// Throws (lengths stay, free slots stay free): std::out_of_range; std::invalid_argument for a
  /// free `from` or one with fewer bytes, a slot of `to` with bytes or named twice, a captured
  /// stream, and null; unsupported for packed slots, and if a device shows other bytes at a second
  /// address of a chunk; out_of_memory; hip_error.
  void share_prefix(std::size_t from, const std::size_t* to, std::size_t count, std::size_t length,
                    stream_ref stream);
  template <class Slots = std::initializer_list<std::size_t>>
  void share_prefix(std::size_t from, const Slots& to, std::size_t length, stream_ref stream) {
    share_prefix(from, std::data(to), std::size(to), length, stream);
  }
  /// Copies the shared blocks that hold [offset, offset + bytes) in each plane to memory of the
  /// slot's own, and waits for `stream`.
  /// Pre: all work of the slot is ordered before this call in `stream`, and none is submitted
  /// before it returns. Throws (bytes stay): std::out_of_range beyond its length; out_of_memory;
  /// hip_error; std::invalid_argument for a free slot and a captured stream.
  void make_writable(std::size_t slot, std::size_t offset, std::size_t bytes, stream_ref stream);

  /// These four throw std::out_of_range.
  [[nodiscard]] void* pointer(std::size_t slot, std::size_t plane = 0) const;
  /// Bytes of the slot in each plane; zero if it is free.
  [[nodiscard]] std::size_t length(std::size_t slot) const;
  /// Bytes that the slot can have in each plane without another block.
  [[nodiscard]] std::size_t capacity(std::size_t slot) const;
  [[nodiscard]] bool in_use(std::size_t slot) const;

  /// The number of free slots that could be committed to `length` bytes each now; zero if the one
  /// that acquire() returns could not. Considers the budget, the device's memory_budget and free
  /// memory, descriptors of the process and spare blocks. Work before releases counts as passed.
  /// Throws: std::out_of_range; hip_error.
  [[nodiscard]] std::size_t slots_that_fit(std::size_t length) const;

  /// Changes slot_arena_options::evict; null for none. Throws: std::logic_error in the callback.
  void set_eviction(std::function<void(std::size_t missing_bytes)> evict);
  /// Releases idle memory beyond the budget. If lengths of slots need more, no commit adds memory
  /// until held_bytes is below it.
  void set_budget(std::size_t bytes);
  /// Releases idle blocks. Returns the bytes that the device, or the program's cache, received.
  std::size_t trim();
  [[nodiscard]] slot_arena_statistics statistics() const;

  [[nodiscard]] void* base() const;
  [[nodiscard]] std::size_t slot_stride() const;
  [[nodiscard]] std::size_t plane_stride() const;
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
