// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/core/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

class chunk_cache;
class region;

namespace detail {
class detached_chunk;
detached_chunk detach_chunk(region& from, std::size_t offset);
detached_chunk detach_left_behind(region& from, std::size_t offset);
}  // namespace detail

/// How far the chunk behind the last one is made before commit() asks for it.
enum class ahead {
  off,      ///< not at all
  created,  ///< its memory is there; commit() maps it and applies the rights
  mapped,   ///< it is mapped with all rights; commit() only takes note of it
};

/// What a region does with its addresses when it is emptied, where HIP gives memory back only with
/// them (quirk::renew_addresses). Elsewhere they stay.
enum class emptied {
  renews_addresses,  ///< frees them and takes them again; base() changes if others were faster
  keeps_addresses,   ///< base() is for life, and the memory comes back with the region's end
};

/// What a region does on a device whose virtual memory is missing or failed a probe.
enum class without_vmm {
  use_hip_malloc,  ///< it holds one allocation, and growth copies
  refuse,          ///< its constructor throws unsupported
};

/// How a region makes its chunks and keeps its addresses.
struct region_options {
  /// Whether its chunks can be exported to other processes.
  handle_type shareable = handle_type::none;
  /// Where chunks come from and return to; nullptr: chunk_cache::shared().
  chunk_cache* cache = nullptr;
  emptied when_empty = emptied::renews_addresses;
  /// Where capability::path() is memory_path::fallback.
  without_vmm fallback = without_vmm::use_hip_malloc;
};

/// What region::trim does with a chunk that begins before the end and reaches beyond: HIP unmaps
/// whole chunks only.
enum class straddling_chunk {
  keep,     ///< it stays; nothing is waited for
  replace,  ///< a smaller one takes its place and the bytes that stay are copied: waits for them
};

/// A range of reserved addresses, the chunks mapped in it and the devices that may use them: the
/// one engine below the growable vector and the pool. Every operation is all or nothing. No two
/// threads may use a region at the same time; kernels and copies may go on using committed bytes
/// throughout. Owns its addresses and chunks. A moved-from region is empty: its sizes are zero, and
/// what would change it throws std::invalid_argument.
///
/// Where capability::path() is fallback: one allocation of hipMalloc from offset 0. commit() that
/// adds backs all up to its end, waits for the devices with access, copies, and changes base();
/// decommit() and trim() give back the whole or, if told to replace, move to less; prepare() does
/// nothing; grant() takes read_write only and holds for all hipMalloc memory of the device for
/// good.
class region {
 public:
  /// Reserves `max_bytes`, rounded up to the granularity, and backs none of it. When so many
  /// addresses are not to be had, retired ones are waited for; then halves are tried down to one
  /// granule: see max_bytes().
  /// Throws: std::invalid_argument when there is no such device or `max_bytes` is zero;
  /// out_of_memory when even one granule is refused; unsupported without VMM, where `options` need
  /// it.
  region(device_ref device, std::size_t max_bytes, region_options options = {});
  /// Unmaps and gives back everything. Pre: nothing in flight uses the bytes; see retire().
  ~region();
  region(region&& other) noexcept;
  region& operator=(region&& other) noexcept;

  /// Backs [offset, offset + bytes) with one new chunk for each gap in it and applies the access
  /// map. Bytes already backed stay untouched. Takes what prepare() ordered in the range whole, so
  /// that more may be backed than was asked for. Waits for nothing but retired memory, in that very
  /// range or of any kind where the device is full, and as quirk::settle_mappings says.
  /// Pre: `offset` and `bytes` are multiples of granularity(), within max_bytes().
  /// Throws: std::invalid_argument, std::out_of_range for a bad range; out_of_memory with what was
  /// held; on any exception nothing changed. std::invalid_argument also for addresses that a chunk
  /// left behind, see move_chunk(), as for trim(), extend() and a decommit() of that chunk.
  /// unsupported where quirk::access_from_base is in force and chunks of several sizes would lie
  /// beside a hole.
  void commit(std::size_t offset, std::size_t bytes);

  /// Has a background thread of the process make the chunk behind the last one backed, of `bytes`
  /// bytes or as many as have room there. A commit() that reaches it takes it whole, or makes it if
  /// the thread has not begun; decommit() and trim() give it back. Does nothing while one is ready
  /// or on its way, and after a failure until the next commit(). Every operation that changes the
  /// region first takes back what has not begun and waits for what has: the HIP calls for one
  /// chunk. Pre: `bytes` is a multiple of granularity(). Throws: std::invalid_argument.
  void prepare(std::size_t bytes, ahead how);
  /// Takes back what prepare() ordered if it has not begun, else waits; returns prepared_bytes().
  std::size_t settle() noexcept;
  /// Bytes that are ready and not backed yet; zero while they are being made.
  [[nodiscard]] std::size_t prepared_bytes() const noexcept;
  /// How many preparations came to nothing: HIP refused, or the system a thread.
  [[nodiscard]] std::size_t failed_preparations() const noexcept;

  /// Unmaps and gives back every chunk that lies wholly in [offset, offset + bytes) and returns
  /// their bytes; chunks that reach outside stay. Pre: nothing in flight uses the bytes.
  std::size_t decommit(std::size_t offset, std::size_t bytes);

  /// Whether move_chunk() is to be had: not where quirk::no_aliases is in force, nor on hipMalloc.
  [[nodiscard]] bool can_move_chunks() const noexcept;
  /// Moves the chunk that begins at `from`, bytes and rights with it, to [to, to + its bytes) while
  /// work in flight goes on using it: its mapping at `from` stays until end_move(from), and rights
  /// are set there too. Until then prepare() does nothing, and nothing else is backed there.
  /// Throws: std::invalid_argument unless a chunk begins at `from` and the place is free addresses;
  /// std::out_of_range; unsupported unless can_move_chunks(); hip_error; then nothing moved.
  void move_chunk(std::size_t from, std::size_t to);
  /// Unmaps what move_chunk() left at `from`. Pre: nothing in flight uses the bytes by these
  /// addresses. Throws: std::invalid_argument when nothing was left there; hip_error; then it is
  /// still mapped.
  void end_move(std::size_t from);

  /// Sets what `device` may do with all bytes backed now and later.
  /// Throws: as access_map::set, and hip_error; on any exception all rights are as before.
  void grant(device_ref device, access_right right = access_right::read_write);
  /// Same as granting none.
  void revoke(device_ref device) { grant(device, access_right::none); }
  [[nodiscard]] access_right access(device_ref device) const noexcept;
  /// The rights of every device.
  [[nodiscard]] const access_map& rights() const;

  /// Gives back the chunks from byte `bytes` on when `stream` has passed this point, and returns
  /// their bytes. Waits for `stream` where its device neither has access nor was named together
  /// with this one by copy_peer_async(), and where `straddling` says replace: then a chunk that
  /// reaches across is replaced too, at the same address, if that frees more than an eighth of what
  /// stays and memory for it is to be had.
  /// Pre: all work that uses the bytes is ordered before this call in `stream`.
  /// Throws: std::out_of_range; std::invalid_argument while `stream` is captured; hip_error; on any
  /// exception all bytes before `bytes` are as they were. See drain_retired_memory().
  std::size_t trim(std::size_t bytes, stream_ref stream,
                   straddling_chunk straddling = straddling_chunk::keep);

  /// Gives everything back when all work that the devices with access have now is done, and leaves
  /// the region as moved from. Waits for nothing, but for these devices while the process exits or
  /// where no thread is to be had. What then fails is reported. See drain_retired_memory().
  /// Pre: other devices' work that uses the bytes is done, or was submitted by copy_peer_async();
  /// where it is neither, trim(0, stream) in its stream before.
  /// Note: the wait behind it is HIP's for a whole device, which ends a stream capture under way
  /// there with an error; trim(0, stream) before leaves nothing to wait for.
  void retire() noexcept;

  /// Enlarges the reservation to at least `max_bytes` and backs [0, commit_bytes) as commit() does:
  /// in place when the addresses behind are free, else by mapping the same chunks into a larger
  /// reservation. No byte is copied. Returns whether base() changed.
  /// Waits, when the base changes, for every device that has access: work in flight uses the old
  /// one. Throws: std::invalid_argument for a size below the present one; out_of_memory; on any
  /// exception nothing changed.
  bool extend(std::size_t max_bytes, std::size_t commit_bytes);

  /// Whether base() stays when a commit() adds memory: not on hipMalloc, see above.
  [[nodiscard]] bool is_address_stable() const noexcept;
  /// Start of the reserved addresses; the same for life unless extend() says otherwise, or
  /// quirk::renew_addresses is in force: trim() and decommit() that leave nothing backed, or trim()
  /// that replaces, may change it then; see emptied. On hipMalloc, start of the allocation, and
  /// nullptr while there is none.
  [[nodiscard]] void* base() const noexcept;
  /// Reserved bytes; may be less than was asked for at construction.
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  /// Backed bytes, all chunks together.
  [[nodiscard]] std::size_t committed_bytes() const noexcept;
  /// Length in bytes of the backed range that starts at `offset`; zero where nothing is backed.
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept;
  [[nodiscard]] std::size_t chunk_count() const noexcept;
  /// Unit of commit and decommit in bytes: the device's minimum granularity.
  [[nodiscard]] std::size_t granularity() const noexcept;
  [[nodiscard]] device_ref device() const;

 private:
  // For a pool, which unmaps without its locks: src/vmm/detached_chunk.hpp.
  friend detail::detached_chunk detail::detach_chunk(region& from, std::size_t offset);
  friend detail::detached_chunk detail::detach_left_behind(region& from, std::size_t offset);
  struct state;
  struct mapped;
  struct allocated;
  [[nodiscard]] state& live() const;

  std::unique_ptr<state> state_;
};

}  // namespace hipvmm
