// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/idle/idle_memory.hpp>  // IWYU pragma: export
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/owner_process.hpp"

namespace hipvmm {

class chunk_cache;

namespace detail {

/// A request for memory that is idle elsewhere in this process.
struct idle_request {
  device_ref device{0};
  std::size_t bytes = 0;  ///< missing; ask_idle_holders() takes the shortage's if more
  /// Until when a holder may wait for work that still uses free memory.
  std::chrono::steady_clock::time_point deadline = {};
  /// Until when the request waits, between calls of holders, for work that uses contents which can
  /// then be evicted.
  std::chrono::steady_clock::time_point evicts_until = {};
  /// Takes idle chunks of `chunk_bytes` and `shareable`, without a release and a creation; null:
  /// all are released.
  chunk_cache* taker = nullptr;
  std::size_t chunk_bytes = 0;
  handle_type shareable = handle_type::none;

  /// Whether the taker wants the chunk as it is. Others must not own it too.
  [[nodiscard]] bool takes(const physical_chunk& chunk) const noexcept;
};

/// Idle memory that its holder gave away, in bytes.
struct given_memory {
  std::size_t released = 0;  ///< to the device
  std::size_t moved = 0;     ///< to the taker
  [[nodiscard]] std::size_t all() const noexcept { return released + moved; }
};

/// An object that keeps memory for itself and can do without some of it.
class idle_holder {
 public:
  idle_holder& operator=(idle_holder&&) = delete;
  /// Gives away about `wanted.bytes` bytes that nothing uses, or what there is. Called by any
  /// thread, with the lock of the membership. It takes no lock that a request has while it asks.
  virtual given_memory give_idle(const idle_request& wanted) = 0;
  /// The most bytes that give_idle() could give, as far as that is known without an attempt. Called
  /// as that.
  [[nodiscard]] virtual std::size_t idle_bytes() = 0;
  /// The same when all work under way has ended.
  [[nodiscard]] virtual std::size_t idle_bytes_when_done() { return idle_bytes(); }

 protected:
  idle_holder() = default;
  ~idle_holder() = default;
};

/// Has a holder asked while it lives. Last member of the holder: give_idle() may use all others.
class idle_membership {
  struct record;

 public:
  /// The kind of a holder. Of one priority, those that lose least are asked first. Holders of
  /// contents, `evicted`, are asked behind all others.
  enum class price { prepared, spare, pooled, evicted };
  /// Holders of a lower priority are asked first. Throws: std::bad_alloc.
  idle_membership(idle_holder& holder, device_ref device, price cost, int priority = 0);
  ~idle_membership() { end(); }
  idle_membership& operator=(idle_membership&&) = delete;
  /// Waits for a call of give_idle(); there are no more then. Nothing the second time, and in a
  /// child of fork().
  void end() noexcept;
  /// The holder is asked behind all others of its priority and price.
  void note_use() noexcept;
  /// Whether a request waits for work that uses evicted holders, as `evicts_until` allows.
  [[nodiscard]] bool is_awaited() const noexcept;
  /// Whether the calling thread has a lock, or is in give_idle() or idle_bytes() of the holder.
  [[nodiscard]] bool is_of_caller() const noexcept;

  /// While one lives, no other thread gives the holder's memory away. The thread may ask others
  /// meanwhile; its own holder is then not asked by anybody.
  class lock {
   public:
    explicit lock(idle_membership& of) noexcept;
    ~lock();
    lock& operator=(lock&&) = delete;

   private:
    record& locked_;
  };

 private:
  friend class idle_holders;
  owner_process process_;
  std::shared_ptr<record> record_;
};

/// After `shortage`: has the holders of this process give away idle memory, until as much as is
/// missing has come. `asks` names the taker, if there is one. Returns whether any did, or others
/// released enough meanwhile: then the request may succeed. Returns false at once within
/// without_asking_others, and if the device could not serve the request if all of its memory were
/// free. Waits for no work but as `asks` says.
/// Pre: the thread has no lock that a holder needs, but that of its own idle_membership.
[[nodiscard]] bool ask_idle_holders(const out_of_memory& shortage,
                                    const idle_request& asks) noexcept;

/// Has the holders of this process give away idle memory. Returns the bytes.
std::size_t give_idle_memory(const idle_request& wanted) noexcept;

/// How many times holders gave something so far, for requests of any thread.
extern constinit std::atomic<std::uint64_t> times_given;

/// The sum of idle_bytes() of the holders on `device` that no other thread uses now.
[[nodiscard]] std::size_t idle_bytes_of(device_ref device);

}  // namespace detail
}  // namespace hipvmm
