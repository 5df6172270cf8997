// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hipvmm/core/error.hpp>
#include <hipvmm/core/stream.hpp>

// What a pool's bookkeeping stands on: memory behind addresses, and order between streams. Tests
// replace both.
namespace hipvmm::mr::pool {

/// A chunk, or an old address of one, that has left a backend and is still mapped.
class detached {
 public:
  detached() = default;
  virtual ~detached() = default;
  detached(const detached&) = delete;
  detached& operator=(const detached&) = delete;

  /// Unmaps it, and gives the chunk back to where it came from. May wait for work of any stream, so
  /// it is called without a lock. False when HIP refused: that is reported, and may be tried again.
  [[nodiscard]] virtual bool release() noexcept = 0;
};

/// Chunks of memory behind a pool's addresses. One thread at a time uses it, under the slow-path
/// lock, but for reclaim() and what detach() returned.
class memory_backend {
 public:
  virtual ~memory_backend() = default;

  [[nodiscard]] virtual std::size_t address_bytes() const = 0;
  /// Unit of all offsets and sizes below.
  [[nodiscard]] virtual std::size_t granularity() const = 0;
  /// Whether a chunk may leave its address for another. Else each stays apart from all others,
  /// with unbacked addresses between them, and goes back to the device from where it was created.
  [[nodiscard]] virtual bool moves_chunks() const { return true; }
  /// Least bytes of a new chunk where chunks lie apart; 0: the pool chooses.
  [[nodiscard]] virtual std::size_t least_slab() const { return 0; }
  /// Most chunks that there may be; 0: any number.
  [[nodiscard]] virtual std::size_t most_chunks() const { return 0; }
  /// Whether all chunks must have one size.
  [[nodiscard]] virtual bool has_equal_chunks() const { return false; }
  /// Whether one chunk may be used at two addresses.
  [[nodiscard]] virtual bool has_aliases() const = 0;
  /// Whether an unmap waits for work of other streams.
  [[nodiscard]] virtual bool unmap_waits() const { return false; }
  /// Whether a released chunk's memory is the device's again while the pool keeps its addresses.
  [[nodiscard]] virtual bool returns_memory() const { return true; }

  /// Backs [offset, offset + bytes) with one chunk: one of that size that was set aside, in the
  /// order of their creation, else a new one. Does not wait for retired memory.
  /// Throws: out_of_memory, hip_error; then nothing changed.
  virtual void create(std::size_t offset, std::size_t bytes) = 0;
  /// Waits until memory that is on its way back to the device may relieve `shortage`. `seen`: what
  /// reclaimed_so_far() was before the request. False when nothing is on its way. Thread-safe.
  [[nodiscard]] virtual bool reclaim(const out_of_memory& shortage, std::uint64_t seen) {
    static_cast<void>(shortage);
    static_cast<void>(seen);
    return false;
  }
  [[nodiscard]] virtual std::uint64_t reclaimed_so_far() const { return 0; }

  /// Takes the chunk at `offset` away from its address and sets it aside for create().
  /// Pre: nothing in flight uses it, it has no other address, and moves_chunks().
  /// Throws: hip_error; then nothing changed.
  virtual void set_aside(std::size_t offset, std::size_t bytes) = 0;
  /// Gives what is set aside back to the device.
  virtual void release_set_aside() noexcept {}
  /// Takes the chunk at `offset` out, to be released without a lock. Until that has succeeded its
  /// addresses must not be backed again. Pre: nothing in flight uses it.
  /// Throws: std::bad_alloc; then nothing changed.
  [[nodiscard]] virtual std::unique_ptr<detached> detach(std::size_t offset, std::size_t bytes) = 0;

  /// Backs [to, to + bytes) with the chunk at `from`, which keeps that address too until
  /// detach_old_address(from). Pre: has_aliases(). Throws: hip_error; then nothing changed.
  virtual void alias(std::size_t from, std::size_t to, std::size_t bytes) = 0;
  /// Takes out what alias() left at `from`, as detach() does; the chunk stays at its new address.
  [[nodiscard]] virtual std::unique_ptr<detached> detach_old_address(std::size_t from) = 0;

  /// Reserves new addresses, whose start differs, and takes out the old ones with all chunks there,
  /// to be released without a lock. Pre: not returns_memory(); nothing in flight uses them.
  /// Throws: out_of_memory; then nothing changed.
  [[nodiscard]] virtual std::unique_ptr<detached> renew_addresses() { return nullptr; }
  /// The address of offset 0; 0 where offsets tell nothing of addresses.
  [[nodiscard]] virtual std::uintptr_t base() const noexcept { return 0; }
};

/// A point in one or more streams that can be asked whether it has passed.
class fence {
 public:
  virtual ~fence() = default;
  [[nodiscard]] virtual bool is_done() const = 0;
  /// The caller waits.
  virtual void synchronize() const = 0;
  /// Whether streams can wait for it; else only the host can.
  [[nodiscard]] virtual bool orders_streams() const { return true; }
  /// Work submitted to `waiter` from now on waits. False, nothing done, while `waiter` is being
  /// captured into a graph. Pre: orders_streams().
  [[nodiscard]] virtual bool make_stream_wait(stream_ref waiter) const = 0;
};

/// Makes fences. Thread-safe.
class fence_source {
 public:
  virtual ~fence_source() = default;
  /// Covers what has been submitted to `stream` so far; nullptr while it is being captured into a
  /// graph, whose work no fence can cover.
  [[nodiscard]] virtual std::shared_ptr<const fence> fence_for(stream_ref stream) = 0;
  /// Covers what has been submitted so far to any stream of the devices that may use the memory.
  /// Only the host can wait for it.
  [[nodiscard]] virtual std::shared_ptr<const fence> fence_for_all() = 0;
  /// Waits for all work that may use the memory, of streams that are gone too.
  virtual void synchronize() = 0;
};

}  // namespace hipvmm::mr::pool
