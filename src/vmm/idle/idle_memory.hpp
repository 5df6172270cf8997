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

struct idle_request {
  device_ref device{0};
  std::size_t bytes = 0;  ///< the shortage's if that is more
  /// Until then holders may wait for work that uses free memory; not less than 20 ms together.
  std::chrono::steady_clock::time_point deadline = {};
  /// Until then the request waits, between calls of holders, for work on memory to be evicted.
  std::chrono::steady_clock::time_point evicts_until = {};
  /// Gets idle chunks of `chunk_bytes` and `shareable` unreleased; null: all are released.
  chunk_cache* taker = nullptr;
  std::size_t chunk_bytes = 0;
  handle_type shareable = handle_type::none;

  /// Whether the taker can use the chunk: it fits and has no other owner.
  [[nodiscard]] bool takes(const physical_chunk& chunk) const noexcept;
};

struct given_memory {
  std::size_t released = 0;  ///< to the device
  std::size_t moved = 0;     ///< to the taker
  [[nodiscard]] std::size_t all() const noexcept { return released + moved; }
};

class idle_holder {
 public:
  idle_holder& operator=(idle_holder&&) = delete;
  /// Gives away about `wanted.bytes` bytes that nothing uses, or fewer. Any thread calls it under
  /// the membership's lock; it takes no lock that a request has while it asks.
  virtual given_memory give_idle(const idle_request& wanted) = 0;
  /// The most that give_idle() could give, as far as known. Under the same lock.
  [[nodiscard]] virtual std::size_t idle_bytes() = 0;
  /// As idle_bytes(), once all work under way has ended.
  [[nodiscard]] virtual std::size_t idle_bytes_when_done() { return idle_bytes(); }

 protected:
  idle_holder() = default;
  ~idle_holder() = default;
};

/// Last member of the holder: give_idle() may use all others.
class idle_membership {
  struct record;

 public:
  /// Asked in this order, those that lose least first; `evicted` holders, of contents, after all
  /// others of any priority.
  enum class price { prepared, spare, pooled, evicted };
  /// Lower priorities are asked first. Throws: std::bad_alloc.
  idle_membership(idle_holder& holder, device_ref device, price cost, int priority = 0);
  ~idle_membership() { end(); }
  idle_membership& operator=(idle_membership&&) = delete;
  /// Waits for a running give_idle(); none follows. Does nothing in a child of fork().
  void end() noexcept;
  /// From now on asked after all others of its priority and price.
  void note_use() noexcept;
  /// Whether a request waits, until `evicts_until`, for work that uses evicted holders.
  [[nodiscard]] bool is_awaited() const noexcept;
  /// Whether the calling thread has a lock, or is in a call of the holder by ask_idle_holders() or
  /// give_idle_memory().
  [[nodiscard]] bool is_of_caller() const noexcept;

  /// While one lives, no other thread gives the holder's memory away. If its thread asks others,
  /// nobody asks its own holder.
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

/// Asks this process's holders for the memory missing by `shortage`, within the waits and for the
/// taker of `asks`. Returns whether the request may succeed: holders gave memory, or others
/// released enough. False at once within without_asking_others, and if the request exceeds the
/// device's memory. Pre: the thread has no lock that a holder needs, but that of its own
/// idle_membership.
[[nodiscard]] bool ask_idle_holders(const out_of_memory& shortage,
                                    const idle_request& asks) noexcept;

/// As ask_idle_holders() without a shortage. Returns the bytes given.
std::size_t give_idle_memory(const idle_request& wanted) noexcept;

extern constinit std::atomic<std::uint64_t> times_given;

/// Without holders that other threads use now.
[[nodiscard]] std::size_t idle_bytes_of(device_ref device);

}  // namespace detail
}  // namespace hipvmm
