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
  /// Idle memory held beyond this, in bytes, goes back to the device soon, by a thread of the
  /// library. Where quirk::renew_addresses is in force, only once the whole pool is idle.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  /// Whether the pool's chunks can be exported to other processes.
  handle_type shareable = handle_type::none;
  /// Where capability::path() is memory_path::fallback.
  without_vmm fallback = without_vmm::use_hip_malloc;
};

/// A stream-ordered pool of one device's memory in one range of addresses. Memory is reused in the
/// stream that freed it, HIP is only asked whether that is being captured, and adjacent free blocks
/// merge whatever chunks they lie in. When no run of free blocks is long enough, idle chunks are
/// mapped where they are needed before new memory is taken from the device.
/// - Any number of threads and streams may use it; default streams are those of its device. Streams
///   of other devices may free memory too, also without access to it.
/// - A request may wait for the GPU only when the limit or the device leaves nothing else. No other
///   thread waits with it.
/// - Without virtual memory it cuts up slabs of hipMalloc, which neither move nor merge: explain().
///   There an alignment above 2 MiB is unsupported, as rights but read_write are.
/// - At its end all memory goes back, also what is still allocated, when the work of the devices
///   with access is done, and of those whose streams freed memory.
/// - Captures of streams go on undisturbed. A stream that is being captured gets memory that
/// nothing
///   uses, for the graph may run in any stream; it must stay allocated until the last launch is
///   submitted. Memory that is freed in a captured stream is refused, which the error handler is
///   told; that is noticed where the stream has allocated during the capture.
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
  /// Deallocates by address alone, in the stream that the memory was allocated in. Does not wait.
  /// Memory of allocate_sync(), or of a stream that was forgotten or is another thread's default
  /// one, is reused only when all work that the devices with access have now is done, as after
  /// hipFree. So is what deallocate_sync() gets.
  void deallocate(void* pointer) noexcept;

  /// Declares that `waiter` waits for an event recorded on `other` after every pool call made so
  /// far on `other`. That orders it behind what was freed in `other`, and behind nothing that
  /// `other` itself has waited for. For streams and events that are not hipvmm's own, which report
  /// it themselves, and for events whose handle was given away (event::get).
  void note_stream_wait(stream_ref waiter, stream_ref other);
  /// Declares that `stream` will be destroyed: what was freed in it becomes free for all streams
  /// when its work up to here is done. Call it before hipStreamDestroy, and in a thread that ends
  /// for its default stream; a hipvmm::stream reports it itself. Throws: std::invalid_argument
  /// while it is being captured; hip_error.
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

  /// Gives idle memory back to the device until `bytes_to_keep` are held, and returns the bytes
  /// that went. Waits until `deadline` at most for work that still uses free memory, and for memory
  /// freed without a stream, which without a deadline stays. Other threads are not held up. Where
  /// quirk::renew_addresses is in force memory goes back only when nothing is allocated.
  /// Throws: hip_error, std::bad_alloc. What HIP refuses to unmap is reported and stays counted.
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
