// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hipvmm {

namespace detail {
class event_receiver;
}  // namespace detail

enum class memory_event_kind : std::uint8_t {
  allocate,       ///< a pool allocated for a caller
  deallocate,     ///< a caller deallocated to a pool
  map,            ///< a chunk was mapped at `address`
  unmap,          ///< it was unmapped there
  grow,           ///< the object has `bytes` more
  trim,           ///< the object has `bytes` less; chunks in use are unmapped later
  grant,          ///< `peer` got a right to all memory of the object, or to `bytes` of a region
  revoke,         ///< `peer` lost its right
  out_of_memory,  ///< a request of `bytes` bytes was refused
};
inline constexpr std::size_t memory_event_kind_count =
    static_cast<std::size_t>(memory_event_kind::out_of_memory) + 1;

/// A string with static storage.
[[nodiscard]] const char* to_string(memory_event_kind kind) noexcept;

/// Several layers may report one call: a growing pool commits memory of a region.
enum class memory_event_source : std::uint8_t { mapping, region, pool, vector };

struct memory_event {
  memory_event_kind kind;
  memory_event_source source;
  std::int16_t peer;       ///< ordinal of the device whose right changed, else -1
  std::int32_t device;     ///< ordinal of the device that owns the memory
  std::uint64_t object;    ///< event_id() of the pool, region or vector; 0 for a mapping
  std::uintptr_t address;  ///< 0 if the event has none
  std::size_t bytes;       ///< as requested by the caller
  std::uintptr_t stream;   ///< handle of the stream; 0 also without a stream
  std::uint64_t thread;    ///< as gettid() returns
  std::int64_t time_ns;    ///< of std::chrono::steady_clock
};

/// Receives the events of all pools, regions and vectors of this process. At most one exists.
/// - Allocations and deallocations are those of vmm_pool_resource, arena_resource,
///   fixed_size_resource and binning_resource.
/// - `time_ns` of a deallocation is its beginning: its address is allocated again only later.
/// - Destruction waits for callbacks in other threads, and may run beside threads that report.
class memory_event_subscription {
 public:
  /// Called in the thread that reports, without a lock of the library: events that occur under a
  /// lock are delivered when it is released. Its exceptions are reported to the error handler.
  /// - It may call the library; events that this causes are not reported, but counted as lost.
  /// - It must not end the subscription, nor wait for a thread that does.
  using callback = std::function<void(const memory_event&)>;

  /// Keeps the last `events_per_thread` events of each thread for read(), 64 bytes each.
  /// Throws: std::invalid_argument for 0; std::logic_error while there is another subscription.
  explicit memory_event_subscription(std::size_t events_per_thread = std::size_t{1} << 14);
  /// Throws: std::invalid_argument for an empty `receiver`; as the other constructor.
  explicit memory_event_subscription(callback receiver);
  ~memory_event_subscription();
  memory_event_subscription& operator=(memory_event_subscription&&) = delete;

  /// Takes out the kept events of all threads, in the order of time; none with a callback, or in a
  /// child of fork(). Any thread may call it. Of threads that report, only one with its first event
  /// may wait for it.
  [[nodiscard]] std::vector<memory_event> read();
  /// Events that are never delivered: overwritten before read(), caused by the callback, or of a
  /// thread that was ending or had no host memory to keep them.
  [[nodiscard]] std::uint64_t lost() const noexcept;

 private:
  std::unique_ptr<detail::event_receiver> receiver_;
};

}  // namespace hipvmm
