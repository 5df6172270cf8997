// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/check.hpp"
#include "strategy/call_prices.hpp"
#include "vmm/idle/idle_memory.hpp"

// Memory behind addresses, and the order of streams: interfaces, which tests replace.
namespace hipvmm::mr::pool {

struct chunk_gift {
  const detail::idle_request& asked;
  std::size_t moved = 0;  ///< bytes that the taker has
};

/// A chunk, or an old address of one, that a backend has detached and not unmapped yet.
class pending_release {
 public:
  virtual ~pending_release() = default;
  pending_release& operator=(pending_release&&) = delete;

  /// Unmaps it, and releases the chunk to its source or to the taker of `gift`. Called without a
  /// lock, because it may wait for work. Returns false, after a report, if HIP refused; may be
  /// tried again.
  [[nodiscard]] virtual bool release(chunk_gift* gift = nullptr) noexcept = 0;
};

template <typename Held>
class pending_release_of final : public pending_release {
 public:
  explicit pending_release_of(void (*how)(Held&), Held what = {})
      : held{std::move(what)}, release_{how} {}
  [[nodiscard]] bool release(chunk_gift*) noexcept override {
    return detail::report_exceptions([this] { release_(held); });
  }

  Held held;

 private:
  void (*release_)(Held&);
};

class slab_supply;

struct new_memory {
  std::size_t bytes = 0;
  std::size_t chunks = static_cast<std::size_t>(-1);  ///< at most so many
};

/// Constant once a pool uses the backend.
struct backend_traits {
  std::size_t address_bytes = 0;
  std::size_t granularity = 0;  ///< unit of all offsets and sizes
  /// Whether a chunk can move to another address. Otherwise unbacked addresses separate chunks.
  bool moves_chunks = true;
  std::size_t least_slab = 0;     ///< minimum of a slab; 0: the pool chooses
  std::size_t most_chunks = 0;    ///< maximum number of chunks; 0: any number
  bool has_equal_chunks = false;  ///< all chunks must have one size
  bool has_aliases = false;       ///< one chunk can be mapped at two addresses at the same time
  detail::call_prices prices{};   ///< of calls for chunks; zero if the backend has no chunks
  /// Whether an unmap waits for other streams or is slow, so that no request may wait for it.
  bool unmap_waits = false;
  /// Whether a chunk's memory can return to the device while the pool keeps its addresses.
  bool returns_memory = true;
};

/// Chunks behind a pool's addresses. One thread at a time uses it, under the slow-path lock, except
/// available(), thread-safe functions and the result of detach().
class memory_backend {
 public:
  explicit memory_backend(const backend_traits& properties) : traits{properties} {}
  virtual ~memory_backend() = default;

  backend_traits traits;

  /// The memory that it can create, as far as known.
  [[nodiscard]] virtual new_memory available() const { return {static_cast<std::size_t>(-1)}; }

  /// Sets the supply that the next create() uses, or none.
  virtual void use_supply(slab_supply* /*supply*/) noexcept {}
  /// Backs [offset, offset + bytes) with chunks of `chunk` bytes, the last one with the rest. Takes
  /// set-aside chunks of these sizes first. Does not wait for retired memory. Pre: one chunk unless
  /// traits.moves_chunks. Throws: out_of_memory, hip_error; then nothing changed.
  virtual void create(std::size_t offset, std::size_t bytes, std::size_t chunk) = 0;
  /// Asks holders of idle memory, then waits for memory being released, until a retry may succeed;
  /// false if it cannot. `seen`: reclaimed_so_far() before the request. Thread-safe.
  [[nodiscard]] virtual bool reclaim(const out_of_memory& /*shortage*/, std::uint64_t /*seen*/) {
    return false;
  }
  /// Whether a request is in reclaim(). Thread-safe.
  [[nodiscard]] bool is_reclaiming() const noexcept { return reclaiming != 0; }
  [[nodiscard]] virtual std::uint64_t reclaimed_so_far() const { return 0; }
  /// Number of releases that reclaim() may still wait for. Thread-safe.
  [[nodiscard]] virtual std::size_t reclaims_left() const { return 0; }

  /// Unmaps the chunk at `offset` and sets it aside for create(). Pre: nothing in flight uses it,
  /// it has no other address, and traits.moves_chunks. Throws: hip_error; then nothing changed.
  virtual void set_aside(std::size_t, std::size_t) { refuse_another_address(); }
  virtual void release_set_aside() noexcept {}
  /// Bytes of set-aside chunks that release_set_aside() cannot return to the device. Thread-safe.
  [[nodiscard]] virtual std::size_t pinned_bytes() const noexcept { return 0; }
  /// Bytes of set-aside chunks that have `chunk` bytes each. Thread-safe.
  [[nodiscard]] virtual std::size_t set_aside_bytes(std::size_t /*chunk*/) const { return 0; }
  /// Detaches the chunk at `offset`. Its addresses are backed again only after its release. Pre:
  /// nothing in flight uses it. Throws: std::bad_alloc; nothing changed.
  [[nodiscard]] virtual std::unique_ptr<pending_release> detach(std::size_t offset,
                                                                std::size_t bytes) = 0;

  /// Maps the chunks at `from` side by side from `to` on; they keep the old addresses too. Pre:
  /// traits.has_aliases. Throws: hip_error; then nothing changed.
  virtual void alias(const std::vector<std::size_t>&, std::size_t) { refuse_another_address(); }
  /// Memory that a failed create() or alias() left mapped, because HIP refused to undo it.
  struct left_mapped {
    std::unique_ptr<pending_release> what;  ///< or nullptr
    std::size_t bytes = 0;                  ///< of memory that only these mappings hold
  };
  /// As detach(), for all such mappings in [offset, offset + bytes).
  [[nodiscard]] virtual left_mapped detach_refused(std::size_t /*offset*/, std::size_t /*bytes*/) {
    return {};
  }

  /// As detach(), for the old address that alias() left at `from`: the chunk stays.
  [[nodiscard]] virtual std::unique_ptr<pending_release> detach_old_mapping(std::size_t) {
    refuse_another_address();
  }

  /// Reserves other addresses and detaches the old ones with all their chunks. Pre: not
  /// traits.returns_memory; nothing in flight uses them. Throws: out_of_memory; then nothing
  /// changed.
  [[nodiscard]] virtual std::unique_ptr<pending_release> replace_addresses() { return nullptr; }
  /// The address of offset 0; 0 if addresses do not follow from offsets.
  [[nodiscard]] virtual std::uintptr_t base() const noexcept { return 0; }

 protected:
  std::atomic<int> reclaiming{0};  // requests in reclaim()

 private:
  [[noreturn]] static void refuse_another_address() {
    throw unsupported{"a slab of a pool has one address"};
  }
};

class fence {
 public:
  virtual ~fence() = default;
  [[nodiscard]] virtual bool is_done() const = 0;
  virtual void synchronize() const = 0;
  /// Whether streams can wait for it; otherwise only the host can.
  [[nodiscard]] virtual bool orders_streams() const { return true; }
  /// Later work of `waiter` waits for the fence. Returns false, nothing done, while `waiter` is
  /// captured. Pre: orders_streams().
  [[nodiscard]] virtual bool make_stream_wait(stream_ref waiter) const = 0;
};

class passed_fence final : public fence {
 public:
  [[nodiscard]] bool is_done() const override { return true; }
  void synchronize() const override {}
  [[nodiscard]] bool make_stream_wait(stream_ref) const override { return true; }
};

/// Thread-safe.
class fence_source {
 public:
  virtual ~fence_source() = default;
  /// Whether `stream` may end without a report. Then fence_for() may be called for it only in a
  /// call of the pool that was given the stream.
  [[nodiscard]] virtual bool may_vanish(stream_ref /*stream*/) const { return false; }
  /// Covers all work submitted to `stream` so far; nullptr while it is captured, because no fence
  /// can cover a graph's work. Throws: hip_error, std::bad_alloc.
  [[nodiscard]] virtual std::shared_ptr<const fence> fence_for(stream_ref stream) = 0;
  /// For all devices that may use the memory. Only the host can wait for it.
  [[nodiscard]] virtual std::shared_ptr<const fence> fence_for_all() = 0;
  /// For all devices, and for destroyed streams. Only the host can wait for it.
  [[nodiscard]] virtual std::shared_ptr<const fence> fence_for_gone() { return fence_for_all(); }
  /// From now on fence_for_all() and synchronize() cover all devices.
  virtual void note_unknown_user() noexcept {}
  /// Whether fences of a stream may not be used after its end.
  [[nodiscard]] virtual bool fences_need_streams() const { return false; }
  virtual void synchronize() = 0;
};

}  // namespace hipvmm::mr::pool
