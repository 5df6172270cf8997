// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/resource/legacy_ipc.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm::mr {

/// A stream-ordered pool of one device's memory in one range of addresses.
/// The stream that freed memory reuses it with no HIP call but the query of its capture status.
/// Adjacent free blocks merge across chunks. If no run of free blocks is long enough, the pool
/// remaps idle chunks before it allocates memory from the device.
/// - Threads and streams: any number may use it. Default streams are those of its device. Streams
///   of other devices may free memory too, even without access to it.
/// - Waiting: a request waits for the GPU only if the limit or the device leaves no other memory,
///   or to move chunks in use: on a per-thread default stream, and on devices without aliases (two
///   addresses of one chunk). allocate_sync() also waits for freed memory. Other threads go on.
/// - Without virtual memory: it suballocates slabs of hipMalloc, which neither move nor merge. Then
///   alignments above 2 MiB and rights other than read_write are unsupported.
/// - Destruction: releases all memory, allocated blocks too, after the work of the devices with
///   access, and of the devices of streams that freed memory.
/// - Captures: the pool never disturbs a capture. A capturing stream gets only memory that no work
///   uses, because the graph may run in any stream. Keep that memory allocated until the graph's
///   last launch is submitted. Do not deallocate on a capturing stream. If the stream has allocated
///   during the capture, the pool detects this, refuses, and reports to the error handler.
class vmm_pool_resource final : public memory_resource {
 public:
  /// Throws: std::invalid_argument for a bad device or options; out_of_memory if the addresses or
  /// `initial_bytes` are not available; unsupported without virtual memory if the options refuse
  /// slabs or need chunks; as set_access() for `options.access`.
  explicit vmm_pool_resource(device_ref device, const pool_options& options = {});
  ~vmm_pool_resource() override;
  vmm_pool_resource& operator=(vmm_pool_resource&&) = delete;

  using memory_resource::deallocate;
  /// Deallocates by address alone, in the stream of the allocation. Does not wait.
  /// As after deallocate_sync() and hipFree, the pool reuses the memory after all current work of
  /// the devices that may use it, if
  /// - allocate_sync() allocated it, or a request in a capture;
  /// - its stream was forgotten, or is another thread's default stream;
  /// - on CUDA, its stream is neither a hipvmm::stream nor a default stream, unless the pool has
  ///   pool_options::forgets_streams.
  void deallocate(void* pointer) noexcept;
  /// As deallocate() in `stream`. Returns false for nullptr, and in a child of fork(); false, after
  /// a report to the error handler, if `pointer` and `bytes` are no allocation of the pool, or if
  /// the pool detects that `stream` is being captured.
  bool try_deallocate(stream_ref stream, void* pointer, std::size_t bytes) noexcept;

  /// Declares that `waiter` waits for an event that was recorded on `other` after all pool calls
  /// there. This orders `waiter` after memory freed in `other`, but not after other streams that
  /// `other` has waited for. Needed for streams and events that hipvmm did not create, and for
  /// events whose handle event::get has returned.
  void note_stream_wait(stream_ref waiter, stream_ref other);
  /// Declares that `stream` will be destroyed: memory freed in it becomes free for all streams when
  /// its work up to this call is done.
  /// - A hipvmm::stream reports its end itself. Unless pool_options::forgets_streams is true,
  ///   another stream may be destroyed without this call once deallocate() in it has returned. Its
  ///   memory then waits on CUDA for the event of its last deallocation; on AMD, or without such an
  ///   event, for all devices.
  /// - Call it before hipStreamDestroy, because a later stream may get the same handle. A thread
  ///   that ends calls it for its default stream.
  /// Throws: std::invalid_argument while it is being captured, if memory freed in it needs an
  /// event; hip_error.
  void forget_stream(stream_ref stream);

  [[nodiscard]] pool_reuse reuse() const;
  void set_reuse(pool_reuse reuse);
  [[nodiscard]] std::size_t release_threshold() const noexcept;
  void set_release_threshold(std::size_t bytes);
  /// The limit in force, in whole granules.
  [[nodiscard]] std::size_t maximum_bytes() const;

  /// Sets the right of `device` to all memory of the pool, present and future. Throws: as
  /// region::grant; then all rights are as before.
  void grant(device_ref device, access_right right = access_right::read_write);
  void revoke(device_ref device) { grant(device, access_right::none); }
  /// Replaces the rights of all devices at once. A device that `rights` does not name gets the
  /// default, see access_list.
  /// Pre: no work in flight, even on freed memory, needs a right that its device loses. Throws: as
  /// region::set_access; then all rights are as before.
  void set_access(const access_list& rights);
  [[nodiscard]] access_right access(device_ref device) const;
  /// HIP's answer for each chunk, as region::effective_access, by offset as in chunks().
  /// Throws: unsupported on slabs; std::logic_error while its tag sleeps; hip_error.
  [[nodiscard]] std::vector<chunk_access> effective_access() const;

  /// The pool's chunks, by offset from the start of its addresses; none while its tag sleeps.
  /// Throws: unsupported on slabs.
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  /// As region's, idle memory too. A chunk that the pool moves is listed again, with a new serial.
  /// Throws also: unsupported on slabs.
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since = 0);
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since = 0);
  /// Exports the chunks that hold the block at `pointer`. Another process maps them by
  /// imported_blocks, made with this pool's statistics().address_bytes.
  /// - The block must stay allocated while the other process uses it. Nothing orders the work of
  ///   two processes; see docs/reference/ipc.md.
  /// - The other process can access all of these chunks, neighbouring blocks included.
  /// - The pool reuses an exported chunk as any other. On devices without aliases a new chunk takes
  ///   its place if the pool moves it.
  /// Cost: a file descriptor for each chunk, until the result ends.
  /// Throws: std::invalid_argument unless an allocation begins at `pointer`, or without
  /// pool_options::shareable; out_of_memory if the process has no descriptor left; unsupported on
  /// slabs; hip_error.
  [[nodiscard]] exported_range export_block(const void* pointer);
  /// Exports the block at `pointer` by legacy IPC (hipIpcGetMemHandle), from a pool of slabs:
  /// pool_options::fallback at without_vmm::always, or a device without virtual memory. Another
  /// process maps it by imported_legacy_block, or by HIP's own calls, and can access the rest of
  /// the slab too. The block must stay allocated until that process has ended its mapping.
  /// Throws: std::invalid_argument unless an allocation begins at `pointer`; unsupported for a pool
  /// of chunks, which legacy IPC does not take; hip_error.
  [[nodiscard]] legacy_ipc_block export_legacy_block(const void* pointer);

  /// Releases idle memory until `bytes_to_keep` are held, and returns the bytes released.
  /// - Chunks are released whole, and never so that less than `bytes_to_keep` would stay. If every
  ///   idle chunk is larger than the excess, all stay.
  /// - Until `deadline`, it may wait for work that still uses free memory, for memory freed without
  ///   a stream, and for chunks that another thread is unmapping. Other threads are not blocked.
  /// - If memory returns to the device only with its addresses (docs/reference/capability.md), a
  ///   trim releases memory only while nothing is allocated.
  /// Throws: hip_error, std::bad_alloc. Memory that HIP refuses to unmap is reported and stays
  /// counted.
  std::size_t trim_to(std::size_t bytes_to_keep,
                      std::chrono::steady_clock::time_point deadline = {});

  /// Called without a lock for a request of `bytes` bytes that fails. It may deallocate memory to
  /// this pool. Returns whether to retry. The request fails after 16 calls in a row that change no
  /// number of its refusal.
  using out_of_memory_callback = std::function<bool(std::size_t bytes)>;
  void set_out_of_memory_callback(out_of_memory_callback callback);

  [[nodiscard]] pool_statistics statistics() const;
  /// The first members of statistics(), at low cost. Makes no HIP call, so it may be called while
  /// the process exits.
  [[nodiscard]] pool_usage usage() const;
  /// Whether `address` is one of the pool's addresses, with or without memory. Makes no HIP call.
  [[nodiscard]] bool contains(const void* address) const noexcept;
  /// Omits blocks that another thread is changing or waiting for. Visits all blocks under locks.
  [[nodiscard]] pool_snapshot snapshot() const;
  void reset_peaks();
  /// statistics() as text for people; fits on one screen.
  [[nodiscard]] std::string report() const;
  /// One sentence: the kind of memory that the pool uses, and why.
  [[nodiscard]] std::string explain() const;
  /// As memory_event::object.
  [[nodiscard]] std::uint64_t event_id() const noexcept;
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

  /// Throws: unsupported in a child of fork().
  [[nodiscard]] state& live() const;

  std::unique_ptr<state> state_;
};

}  // namespace hipvmm::mr
