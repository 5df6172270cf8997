// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include "core/background_task.hpp"
#include "core/observers/memory_events.hpp"
#include "core/observers/observers.hpp"
#include "core/observers/race_checker_calls.hpp"
#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/backend/device_backend.hpp"
#include "mr/pool/backend/event_fences.hpp"
#include "runtime/stream.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm::mr {

/// Reports to a pool's allocator how the program orders streams by hipvmm's streams and events.
class order_watch final : private detail::stream_watcher {
 public:
  order_watch(pool::block_allocator& allocator, device_ref device)
      : allocator_{allocator}, device_{device} {
    detail::watch_streams(*this);
  }
  ~order_watch() override { detail::end_watch(*this); }

 private:
  [[nodiscard]] detail::stream_point point_of(ihipStream_t* handle, bool poll) override {
    const stream_ref stream{handle};
    return is_known(stream) ? allocator_.current_epoch(stream, !poll) : detail::stream_point{};
  }
  void add_dependency(ihipStream_t* handle, const detail::stream_point& point) override {
    const stream_ref waiter{handle};
    if (is_known(waiter)) allocator_.add_dependency(waiter, point);
  }
  void note_passed(const detail::stream_point& point) override { allocator_.note_passed(point); }
  void note_end(ihipStream_t* stream) override { allocator_.forget_ended(stream); }

  [[nodiscard]] bool is_known(stream_ref stream) const {
    return (!stream.is_default() && !stream.is_per_thread_default()) ||
           device_ref::current() == device_;
  }

  pool::block_allocator& allocator_;
  device_ref device_;
};

struct pool_messages {
  const char* name;
  const char* limit_name;
  std::string (*describe)(const pool_statistics& now, std::size_t maximum);
};

struct pool_state {
  pool_state(const pool_messages& texts, device_ref owner,
             std::unique_ptr<pool::addressed_backend> from, std::size_t maximum_bytes,
             const pool_options& options);

  [[nodiscard]] bool is_per_thread(stream_ref stream) const noexcept {
    return stream == per_thread;
  }
  [[nodiscard]] bool is_captured(stream_ref stream) const {
    if (!is_per_thread(stream)) return detail::is_captured(stream);
    const scoped_device own{device};  // a thread has such a stream on each device
    return detail::is_captured(stream);
  }
  // By reference, because passing an optional in registers stalls.
  /// Without a stream, allocates memory that any stream may use at once.
  void* allocate(const std::optional<stream_ref>& stream, std::size_t bytes,
                 std::size_t alignment) {
    // Only memory that nothing uses may go into a graph. The legacy stream is never captured.
    if (stream && !stream->is_default() && is_captured(*stream))
      return allocate_for_graph(*stream, bytes, alignment);
    const bool has_cache =
        stream && alignment <= pool::block_allocator::unit && !is_per_thread(*stream);
    void* const made = has_cache ? allocate_cached(*stream, bytes)
                                 : allocate(stream ? allocator.state_of(*stream) : allocator.idle(),
                                            {bytes, alignment});
    if (detail::is_observed()) [[unlikely]]
      report_allocation(made, bytes, stream);
    return made;
  }
  void* allocate(pool::stream_state& user, const pool::request& wanted);
  void* allocate_for_graph(stream_ref captured, std::size_t bytes, std::size_t alignment);
  void* allocate_cached(stream_ref stream, std::size_t bytes);
  [[gnu::noinline]] void* allocate_uncached(const pool::block_allocator::cache_user& user,
                                            std::size_t bytes);
  /// Returns false, with nothing done, if deallocate() must take the memory.
  bool deallocate_cached(stream_ref stream, void* pointer, std::size_t bytes);
  /// Retries with a slab, after a release of idle memory, and if the callback requests it.
  template <typename Allocate>
  void* serve(const pool::request& wanted, Allocate allocate);
  [[nodiscard]] out_of_memory explain(const pool::request& wanted,
                                      const std::optional<out_of_memory>& refused);
  /// Whether the stream is captured. Asks HIP only if the stream got memory in a capture.
  [[nodiscard]] static bool is_captured(pool::stream_state& user) noexcept;
  /// Without `bytes`, the call named an address alone.
  void refuse(const void* pointer, std::optional<std::size_t> bytes,
              const std::string& why) const noexcept;
  [[nodiscard]] pool_statistics statistics();
  [[nodiscard]] std::string report();
  [[nodiscard]] pool_snapshot snapshot();
  [[nodiscard]] std::optional<std::size_t> offset_of(const void* pointer) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::size_t offset = on_slabs ? memory->offset_of(address) : address - allocator.base();
    return offset < address_bytes ? std::optional{offset} : std::nullopt;
  }
  [[nodiscard]] void* address_of(std::size_t offset) const noexcept {
    return reinterpret_cast<void*>(on_slabs ? memory->address_of(offset)
                                            : allocator.base() + offset);
  }
  /// Returns false, after a report, if nothing was deallocated. Does not wait: without a stream the
  /// memory is reused after all present work.
  bool deallocate(pool::stream_state& user, void* pointer, std::size_t bytes);
  bool deallocate_in(const std::optional<stream_ref>& stream, void* pointer, std::size_t bytes);
  bool deallocate(const std::optional<stream_ref>& stream, void* pointer, std::size_t bytes) {
    if (detail::is_observed()) [[unlikely]]
      return deallocate_observed(stream, pointer, bytes);
    return deallocate_in(stream, pointer, bytes);
  }
  void deallocate(void* pointer);
  // The order checker's note precedes a deallocation, because another caller may have the memory
  // after it. The memory event follows, with the time from before.
  [[gnu::cold]] void report_allocation(void* pointer, std::size_t bytes,
                                       const std::optional<stream_ref>& stream);
  [[gnu::cold]] bool deallocate_observed(const std::optional<stream_ref>& stream, void* pointer,
                                         std::size_t bytes);
  void report_event(memory_event_kind kind, const detail::event_details& details) const noexcept {
    detail::report_event(origin(), kind, details);
  }
  [[nodiscard]] detail::event_origin origin() const noexcept {
    return {memory_event_source::pool, event_id, device.ordinal()};
  }
  void note_stream_wait(stream_ref waiter, stream_ref other) {
    if (waiter != other)
      allocator.add_dependency(allocator.state_of(waiter), allocator.state_of(other));
  }
  /// The background worker releases memory beyond the threshold when its last use is over. Without
  /// a worker, releases all that it can now.
  void release_excess();
  /// The same after a cache took the memory: later, so that the cache has time to serve it again.
  void release_cached_excess();
  /// The same for old addresses of chunks that have moved.
  void unmap_in_background() noexcept;
  /// The worker's part of all three, a few chunks at a time.
  void release_some() noexcept;
  /// Makes waits cover all devices, because the upstream's rights are not known.
  void expect_all_devices();
  /// Reports memory that is still allocated; returns false if there is some.
  bool ends_unused() noexcept;
  /// Waits for devices without access whose streams freed memory, or for all if these are unknown.
  /// The backend releases its memory only after the work of the devices with access.
  void wait_for_devices_without_access() noexcept;
  /// Reports as ends_unused(), and waits for all work that may still use the memory.
  void finish() noexcept;

  const pool_messages texts;
  device_ref device;
  const stream_ref per_thread = stream_ref::per_thread_default();
  const bool is_noted = detail::is_order_checked();
  const std::uint64_t event_id = detail::next_event_id();
  std::unique_ptr<pool::addressed_backend> memory;
  std::size_t maximum;
  pool::event_fences fences;
  std::size_t address_bytes;
  bool on_slabs;
  pool::block_allocator allocator;
  std::atomic<std::size_t> threshold;
  std::atomic<std::uint64_t> callbacks{0};

  std::mutex settings;
  std::shared_ptr<const std::function<bool(std::size_t bytes)>> callback;

  std::chrono::microseconds pause{0};  // of the worker, before its next check
  // Behind all that it uses, because its destructor cancels or waits.
  detail::background_task releasing{[this] { release_some(); }};
  order_watch watch{allocator, device};
};

}  // namespace hipvmm::mr
