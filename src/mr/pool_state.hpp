// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/vmm_pool_resource.hpp>
#include "core/background_task.hpp"
#include "core/capture_mode.hpp"
#include "mr/pool/block_allocator.hpp"
#include "mr/pool/device_backend.hpp"
#include "mr/pool/event_fences.hpp"
#include "mr/pool/order_watch.hpp"

namespace hipvmm::mr {

/// What a pool is called in messages, and why it says that it refuses a request.
struct pool_messages {
  const char* name;
  std::string (*why_short)(const pool_statistics& now, std::size_t bytes, std::size_t maximum);
};

/// What a pool is made of: memory, fences, the allocator of both, and what its user has set.
struct pool_state {
  pool_state(const pool_messages& texts, device_ref owner,
             std::unique_ptr<pool::addressed_backend> from, std::size_t maximum_bytes,
             const pool_options& options);

  [[nodiscard]] bool is_per_thread(stream_ref stream) const noexcept {
    return stream == per_thread;
  }
  [[nodiscard]] pool::stream_state& state_of(stream_ref stream) {
    return is_per_thread(stream) ? allocator.state_of_thread(stream) : allocator.state_of(stream);
  }
  void* allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
    // Nothing tells of a capture but HIP, and no other memory than what nothing uses may go into
    // the graph, so each request asks. The legacy stream is never captured.
    if (!stream.is_default() && detail::is_captured(stream))
      return allocate_for_graph(stream, bytes, alignment);
    if (alignment <= pool::block_allocator::unit && !is_per_thread(stream))
      return allocate_cached(stream, bytes);
    return allocate(state_of(stream), bytes, alignment);
  }
  void* allocate(pool::stream_state& user, std::size_t bytes, std::size_t alignment);
  void* allocate_for_graph(stream_ref captured, std::size_t bytes, std::size_t alignment);
  /// What `allocate` gives for a request of whole units.
  template <typename Allocate>
  void* allocate_block(std::size_t bytes, std::size_t alignment, Allocate allocate);
  /// By way of the caches.
  void* allocate_cached(stream_ref stream, std::size_t bytes);
  /// False, nothing done, for what does not go into a cache.
  bool deallocate_cached(stream_ref stream, void* pointer, std::size_t bytes);
  /// The memory that `allocate` finds, which is tried again as long as the callback wants that.
  template <typename Allocate>
  void* serve(std::size_t bytes, Allocate allocate);
  [[noreturn]] void fail(std::size_t bytes, const std::optional<out_of_memory>& cause);
  /// Whether memory that is freed there belongs to a graph, as far as that is known.
  [[nodiscard]] static bool is_captured(pool::stream_state& user) noexcept;
  /// Tells the error handler of memory that was not taken back.
  void refuse(const void* pointer, std::size_t bytes, const std::string& why) const noexcept;
  [[nodiscard]] pool_statistics statistics();
  [[nodiscard]] std::string report();
  /// Where in the pool's addresses it lies; nullopt for what is none of them.
  [[nodiscard]] std::optional<std::size_t> offset_of(const void* pointer) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::size_t offset = on_slabs ? memory->offset_of(address) : address - allocator.base();
    return offset < address_bytes ? std::optional{offset} : std::nullopt;
  }
  [[nodiscard]] void* address_of(std::size_t offset) const noexcept {
    return reinterpret_cast<void*>(on_slabs ? memory->address_of(offset)
                                            : allocator.base() + offset);
  }
  void deallocate(pool::stream_state& user, void* pointer, std::size_t bytes);
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes);
  /// By address alone.
  void deallocate(void* pointer);
  void note_stream_wait(stream_ref waiter, stream_ref other) {
    if (waiter != other) allocator.add_dependency(state_of(waiter), state_of(other));
  }
  /// Has what is held beyond the threshold given back when its last use is over, by the library's
  /// background worker; where there is none, what can go goes now.
  void release_excess();
  /// The same after a cache took what was freed: soon, for a cache that is emptied after each
  /// deallocation would be of no use.
  void release_cached_excess();
  /// The same for old addresses of chunks that have moved.
  void unmap_in_background() noexcept;
  /// The worker's part of both, a few chunks at a time.
  void release_some() noexcept;
  /// Streams of any device may use the memory, as far as the program lets them.
  void expect_all_devices();
  /// Whether it was made before a fork() whose child this process is: HIP knows nothing of its
  /// memory here, and no thread of the library runs. It must not end then, but be left as it is.
  [[nodiscard]] bool is_of_parent() const noexcept { return ::getpid() != process; }
  /// Reports memory that is still allocated to the error handler; false when there is some.
  bool ends_unused() noexcept;
  /// Waits for devices without access whose streams have freed memory: the end of the backend waits
  /// for the others.
  void wait_for_strangers() noexcept;
  /// As ends_unused(), and waits for all that may still use the memory, which then may go.
  void finish() noexcept;

  const ::pid_t process = ::getpid();
  const pool_messages texts;
  device_ref device;
  const stream_ref per_thread = stream_ref::per_thread_default();
  std::unique_ptr<pool::addressed_backend> memory;
  std::size_t maximum;
  pool::event_fences fences;
  std::size_t address_bytes;
  bool on_slabs;
  pool::block_allocator allocator;
  std::atomic<std::size_t> threshold;
  std::atomic<std::uint64_t> callbacks{0};

  std::mutex settings;
  pool_reuse reuse;
  std::shared_ptr<const vmm_pool_resource::out_of_memory_callback> callback;

  std::chrono::microseconds pause{0};  // of the worker, before it looks again
  // Settled before anything that it uses ends.
  detail::background_task releasing{[this] { release_some(); }};
  pool::order_watch watch{allocator, device};
};

}  // namespace hipvmm::mr
