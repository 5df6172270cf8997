// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/core/device.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/region.hpp>

namespace hipvmm::mr {

struct pool_options {
  /// Held from the start, in bytes; rounded up to whole granules (region::granularity).
  std::size_t initial_bytes = 0;
  /// Most that is ever held, in bytes, rounded down to whole granules; zero: the device's memory.
  std::size_t maximum_bytes = 0;
  /// What is held beyond this, in bytes, goes back to the device when it lies idle: soon, by a
  /// thread of the library.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  /// Whether the pool's chunks can be exported to other processes.
  handle_type shareable = handle_type::none;
  /// Where capability::path() is memory_path::fallback.
  without_vmm fallback = without_vmm::use_hip_malloc;
};

/// A stream-ordered pool of one device's memory in one range of addresses. Memory is used again in
/// its stream without a HIP call, and neighbours become one whatever chunks they lie in. When no
/// free stretch is long enough, idle chunks are mapped to where they are needed, before new memory
/// is taken. Any number of threads and streams may use it; default streams are those of its device.
/// Where virtual memory is missing it cuts up slabs of hipMalloc instead, which neither move nor
/// join: explain(). There an alignment above 2 MiB is unsupported, as rights but read_write are.
/// Owns all its memory: what is still out at its end goes with it, when the device's work is done.
/// Captures of streams go on undisturbed. What a graph uses must stay out until its last launch:
/// nothing may be given back in a stream while it is captured, which only slow ways can refuse.
class vmm_pool_resource final : public memory_resource {
 public:
  /// Throws: std::invalid_argument for a bad device or options; out_of_memory when the addresses or
  /// `initial_bytes` are not to be had; unsupported without virtual memory management where the
  /// options refuse slabs or ask for shareable chunks.
  explicit vmm_pool_resource(device_ref device, const pool_options& options = {});
  ~vmm_pool_resource() override;
  vmm_pool_resource(const vmm_pool_resource&) = delete;
  vmm_pool_resource& operator=(const vmm_pool_resource&) = delete;

  using memory_resource::deallocate;
  /// Deallocates by address alone, in the stream that the memory was allocated in. Waits for all
  /// work of the devices with access, as hipFree does, for memory of allocate_sync() and where that
  /// stream was forgotten or is another thread's default one.
  void deallocate(void* pointer) noexcept;

  /// Says that `waiter` was made to wait for an event of `other` that was recorded after all calls
  /// for `other` so far: after deallocations, and after allocations, which may make it wait itself.
  /// For streams and events that are not hipvmm's own, which say so themselves, and for events
  /// whose handle was given away (event::get).
  void note_stream_wait(stream_ref waiter, stream_ref other);
  /// Says that `stream` will be destroyed: what it gave back becomes free for all when its work up
  /// to here is done. Call it before hipStreamDestroy, and in a thread that ends for its default
  /// stream; a hipvmm::stream says it itself. Throws: std::invalid_argument while it is being
  /// captured; hip_error.
  void forget_stream(stream_ref stream);

  [[nodiscard]] pool_reuse reuse() const;
  void set_reuse(pool_reuse reuse);
  [[nodiscard]] std::size_t release_threshold() const noexcept;
  void set_release_threshold(std::size_t bytes);
  /// The limit that holds, in whole granules.
  [[nodiscard]] std::size_t maximum_bytes() const;

  /// Sets what `device` may do with all memory of the pool, present and future.
  /// Throws: as region::grant; then all rights are as before.
  void grant(device_ref device, access_right right = access_right::read_write);
  void revoke(device_ref device) { grant(device, access_right::none); }
  [[nodiscard]] access_right access(device_ref device) const;

  /// Gives memory whose last use is over back to the device until `bytes_to_keep` are held, and
  /// returns the bytes that went. Waits until `deadline` at most for work that still uses what is
  /// free. No other thread waits for more than the HIP calls of a few chunks. Throws: hip_error.
  std::size_t trim_to(std::size_t bytes_to_keep,
                      std::chrono::steady_clock::time_point deadline = {});

  /// Called without a lock when a request of so many bytes fails, with what is asked for. It may
  /// give memory back to this pool. Returns whether the request is to be tried again.
  using out_of_memory_callback = std::function<bool(std::size_t bytes)>;
  void set_out_of_memory_callback(out_of_memory_callback callback);

  [[nodiscard]] pool_statistics statistics() const;
  /// Sets both highs to what is there now.
  void reset_peaks();
  /// statistics() for people: what is held, where, and what would still fit. Fits a screen.
  [[nodiscard]] std::string report() const;
  /// What its memory is made of and why, one sentence.
  [[nodiscard]] std::string explain() const;
  [[nodiscard]] device_ref device() const noexcept;

 private:
  struct state;

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override;

  std::unique_ptr<state> state_;
};

}  // namespace hipvmm::mr
