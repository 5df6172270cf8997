// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/core/stream.hpp>

// What the pool's bookkeeping stands on: memory behind addresses, and order between streams. Tests
// put both into their own hands.
namespace hipvmm::mr::pool {

/// Chunks of memory behind the pool's addresses. One thread at a time uses it.
class memory_backend {
 public:
  virtual ~memory_backend() = default;

  [[nodiscard]] virtual std::size_t address_bytes() const = 0;
  /// Unit of all offsets and sizes below.
  [[nodiscard]] virtual std::size_t granularity() const = 0;
  /// Whether a chunk may leave its address for another. Else each stays apart from all others,
  /// with unbacked addresses between them, and goes back to the device from where it was created.
  [[nodiscard]] virtual bool moves_chunks() const { return true; }
  /// Least bytes of a new chunk where chunks lie apart; 0: the books choose.
  [[nodiscard]] virtual std::size_t least_slab() const { return 0; }
  /// Whether all chunks must have one size.
  [[nodiscard]] virtual bool has_equal_chunks() const { return false; }
  /// Whether one chunk may be used at two addresses.
  [[nodiscard]] virtual bool has_aliases() const = 0;

  /// Backs [offset, offset + bytes) with one chunk: one of that size that was lifted, in the order
  /// of their creation, else a new one. Throws: out_of_memory, hip_error; then nothing changed.
  virtual void create(std::size_t offset, std::size_t bytes) = 0;
  /// Takes the chunk at `offset` away from its address, for create(). Pre: nothing in flight uses
  /// it, and it has no other address. Throws: hip_error; then nothing changed.
  virtual void lift(std::size_t offset, std::size_t bytes) = 0;
  /// Gives what is lifted back to the device.
  virtual void release_detached() noexcept = 0;
  /// The same, called without a lock, for what goes back by calls of others.
  virtual void release_detached_unlocked() noexcept {}
  /// Backs [to, to + bytes) with the chunk at `from`, which keeps that address too until
  /// end_alias(from). Pre: has_aliases(). Throws: hip_error; then nothing changed.
  virtual void alias(std::size_t from, std::size_t to, std::size_t bytes) = 0;
  /// Whether the chunk has left [from, from + bytes). What HIP refuses is reported, and may be
  /// tried again.
  virtual bool end_alias(std::size_t from, std::size_t bytes) noexcept = 0;
};

/// A point in a stream that can be asked whether it has passed.
class fence {
 public:
  virtual ~fence() = default;
  [[nodiscard]] virtual bool is_done() const = 0;
  /// The caller waits.
  virtual void synchronize() const = 0;
  /// Work submitted to `waiter` from now on waits. False, nothing done, while `waiter` is being
  /// captured into a graph: what is recorded cannot wait for what runs.
  [[nodiscard]] virtual bool make_stream_wait(stream_ref waiter) const = 0;
};

/// Makes fences, and waits where there is none. Thread-safe.
class fence_source {
 public:
  virtual ~fence_source() = default;
  /// Marks what has been submitted to `stream` so far; nullptr while it is being captured into a
  /// graph, of whose work no mark tells.
  [[nodiscard]] virtual std::shared_ptr<const fence> fence_for(stream_ref stream) = 0;
  /// Waits for all work that may use the memory, of streams that are gone too.
  virtual void synchronize() = 0;
};

}  // namespace hipvmm::mr::pool
