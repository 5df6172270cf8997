// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

class region;

namespace detail {
class region_state;
region_state& implementation_of(const region& of);
void adopt_chunks(region& in, std::map<std::size_t, physical_chunk>& chunks);
region region_at(void* address, device_ref device, std::size_t max_bytes,
                 const region_options& options);
}  // namespace detail

/// A range of reserved addresses, the chunks mapped in it and the devices that may use them.
/// Growable vectors and pools are built on it.
/// - Every operation is all or nothing.
/// - No two threads may use a region at the same time. Kernels and copies may use committed bytes
///   throughout.
/// - It owns its addresses and chunks.
/// - While its region_options::tag sleeps, functions that need or change its memory or rights throw
///   std::logic_error; see suspend().
/// - A moved-from region is empty: its sizes are zero, and functions that would change it throw
///   std::invalid_argument.
class region {
 public:
  /// Reserves `max_bytes` of addresses, rounded up to the granularity, and backs none of them.
  /// When so many addresses are not available:
  /// 1) It waits for retired addresses.
  /// 2) It halves the size repeatedly, down to one granule: see max_bytes().
  /// Throws: std::invalid_argument when there is no such device or `max_bytes` is zero;
  /// std::length_error if whole granules of `max_bytes` exceed the address space; out_of_memory
  /// when even one granule is refused; unsupported on a device without usable virtual memory; as
  /// access_map::set for `options.access`.
  region(device_ref device, std::size_t max_bytes, const region_options& options = {});
  /// Unmaps and releases all chunks and frees the addresses.
  /// Pre: nothing in flight uses the bytes; see retire().
  ~region();
  region(region&& other) noexcept;
  region& operator=(region&& other) noexcept;

  /// Commits [offset, offset + bytes): backs each gap in it with one new chunk, or with several of
  /// `largest_chunk` bytes and the rest, and applies the access map.
  /// - Bytes already backed stay untouched.
  /// - A chunk ordered by prepare() in the range is taken whole: more than the requested bytes may
  ///   be backed.
  /// May block for: (1) retired memory in this range; (2) retired memory of any kind when the
  /// device is full; (3) the time until new mappings are visible to work.
  /// Pre: all arguments are multiples of granularity(), and the range is within max_bytes().
  /// Throws (on any exception nothing changed):
  /// - std::invalid_argument, std::out_of_range for a bad range or `largest_chunk`.
  /// - std::invalid_argument also for addresses that a moved chunk left behind, see move_chunk().
  ///   The same holds for trim(), extend() and a decommit() of that chunk.
  /// - out_of_memory, which names the held bytes.
  /// - unsupported if the device grants rights only to chunks of one size and this commit adds
  ///   another size beside a hole.
  void commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk = one_chunk);
  static constexpr std::size_t one_chunk = ~std::size_t{0};

  /// Backs the bytes from `offset` on with `chunk`, which was imported, retained (retain_chunk())
  /// or made by the caller, and applies the access map. A prepared chunk is released.
  /// May block as commit(). Takes `chunk` only when it succeeds: then trim(), decommit() or the end
  /// of the region releases it.
  /// Throws (on any exception nothing changed):
  /// - std::invalid_argument, std::out_of_range for a bad offset or size; if something is backed
  ///   there already; if the chunk is empty, or memory of a device that is neither device() nor one
  ///   of its stripes.
  /// - unsupported as commit(); hip_error.
  void adopt(std::size_t offset, physical_chunk&& chunk);
  /// Lists all chunks, ordered by offset.
  [[nodiscard]] std::vector<chunk_view> chunks() const;
  /// Exports the chunks with a serial greater than `since`, ordered by serial: all for zero. With
  /// the last serial of one call the next call lists chunks backed meanwhile, so that another
  /// process adopts only the new ones.
  /// - A chunk that is listed again, because it moved or rebase() changed all offsets, has a new
  ///   serial. Released chunks are in no list: compare with chunks().
  /// - An exported chunk is never kept in the chunk cache, and trim() does not replace it.
  /// Cost: a file descriptor each, until the result ends.
  /// Throws: std::invalid_argument if one was not made with region_options::shareable posix_fd;
  /// out_of_memory when the process has no descriptor left; hip_error; then nothing is exported.
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since = 0);
  /// The same as fabric handles, of chunks made with region_options::shareable fabric or
  /// posix_fd_and_fabric. A fabric handle owns no memory: the chunks must live until the other
  /// process has imported them. Throws: std::invalid_argument if a chunk was created without
  /// such a handle; hip_error if HIP refuses it.
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since = 0);
  /// Exports the chunks that hold [offset, offset + bytes), of any alignment. The receiver of a
  /// descriptor can reach its whole chunk, bytes beside the range too.
  /// Throws: as export_chunks(); std::out_of_range; std::invalid_argument for no bytes, or if
  /// not all of them are backed.
  [[nodiscard]] exported_range export_range(std::size_t offset, std::size_t bytes);

  /// Orders a chunk in advance: a background thread of the process makes the chunk that begins at
  /// the end of the last backed one. It has `bytes` bytes, or as many as fit there.
  /// - A commit() that reaches the chunk takes it whole, or makes it if the thread has not begun.
  /// - trim(), and decommit() of the last chunk backed, release it. Another object of the process
  ///   that lacks memory may get it (idle_memory()), until the next call that changes the region.
  /// - Does nothing while one is ready or under way, or retired chunks are still mapped in the
  ///   region, and after a failure until the next call that adds, moves or releases chunks.
  /// - Every operation that changes the region first cancels an order that has not begun, and waits
  ///   for one that has, as long as the HIP calls of one chunk take.
  /// Pre: `bytes` is a multiple of granularity().
  /// Throws: std::invalid_argument; std::out_of_range beyond max_bytes(); std::logic_error asleep.
  void prepare(std::size_t bytes, prefetch_level how);
  /// Cancels the order of prepare() if it has not begun, else waits for it. Returns
  /// prepared_bytes().
  std::size_t cancel_or_wait() noexcept;
  /// Prepared bytes that are not backed yet; zero while they are being made.
  [[nodiscard]] std::size_t prepared_bytes() const noexcept;
  /// Number of failed preparations: HIP refused, or the system refused a thread.
  [[nodiscard]] std::size_t failed_preparations() const noexcept;

  /// Decommits every chunk that is wholly in [offset, offset + bytes): unmaps and releases it.
  /// Returns their bytes. Chunks that reach outside stay.
  /// Pre: nothing in flight uses the bytes.
  std::size_t decommit(std::size_t offset, std::size_t bytes);
  /// Decommits the same chunks once `stream` has passed this point: they are mapped until then, and
  /// a commit() of their addresses waits for that. Waits for `stream` in the cases in which trim()
  /// with tail_chunk::keep does.
  /// Pre: all work that uses the bytes is ordered before this call in `stream`.
  /// Throws: as decommit(); std::invalid_argument while `stream` is captured. See
  /// drain_retired_memory().
  std::size_t decommit(std::size_t offset, std::size_t bytes, stream_ref stream);

  /// Moves the chunks of [offset, offset + bytes) to memory of `to`, behind the same addresses:
  /// copies them in `stream`, waits for it, and maps the new chunks in place of the old ones.
  /// Returns the bytes moved. Chunks that are already at `to`, and gaps, stay unchanged.
  /// - Needs memory for all of them at `to`: the old ones are released when all were moved.
  /// - Rights stay. Each chunk has a new serial; a process that imported the old one keeps that
  ///   memory, and its writes there are no longer seen here.
  /// - Growth goes on as region_options::placement says. base() may change; see empty_policy.
  ///   A prepared chunk is released.
  /// Pre: all work that uses the bytes is ordered before this call in `stream`, of a device with
  /// access, and none is submitted before it returns. Both `offset` and `bytes` are multiples of
  /// granularity().
  /// Throws (on any exception the bytes stay in their place):
  /// - std::invalid_argument if the range cuts a chunk, or one of them was moved by move_chunk()
  ///   and is mapped at both addresses; if `to` is a device without read_write: grant() it first;
  ///   if a chunk's own rights give none to its device or to `to`, one of which copies it; in a
  ///   stream that is being captured.
  /// - unsupported if a device with access does not reach the memory of `to`, naming both and
  ///   the link.
  /// - std::out_of_range; out_of_memory; hip_error.
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream);

  /// Returns whether move_chunk() is supported: all devices show the same bytes at two addresses of
  /// a chunk (docs/reference/capability.md).
  [[nodiscard]] bool can_move_chunks() const noexcept;
  /// Moves the chunk that begins at `from`, with its bytes and rights, to [to, to + its bytes).
  /// Work in flight may go on using it.
  /// - The mapping at `from` stays until end_move(from), and rights are set there too.
  /// - Until then prepare() does nothing, and nothing else is backed at `from`.
  /// Throws (then nothing moved): std::invalid_argument unless a chunk begins at `from` and the
  /// target is free addresses; std::out_of_range; unsupported unless can_move_chunks(); hip_error.
  void move_chunk(std::size_t from, std::size_t to);
  /// Unmaps the mapping that move_chunk() left at `from`.
  /// Pre: nothing in flight uses the bytes by these addresses.
  /// Throws: std::invalid_argument when nothing was left there; hip_error; then it is still mapped.
  void end_move(std::size_t from);

  /// Sets the right of `device` to all bytes backed now and later; every other right stays.
  /// - ROCm 7.14 to 10.0: waits for work under way that may use the bytes, because it might access
  ///   wrong pages meanwhile. So may work that other threads submit during the call.
  /// Pre: if `device`, which may be the owner, loses a right, no work of it in flight needs that
  /// right. HIP removes the right at once and notifies no device.
  /// Throws: as access_map::set, and hip_error; on any exception all rights are as before.
  void grant(device_ref device, access_right right = access_right::read_write);
  /// Revokes the right of `device`: the same as granting none.
  void revoke(device_ref device) { grant(device, access_right::none); }
  /// Replaces all rights at once, to all bytes backed now and later: a device that `rights` does
  /// not name has the default then, see access_list. Costs one call of HIP for each run of
  /// neighbouring chunks with the same rights, if HIP takes several in a call. Waits, Pre and
  /// Throws: as grant().
  void set_access(const access_list& rights);
  /// Replaces all rights to the chunks that fill [offset, offset + bytes). They are the chunks' own
  /// and go with them: they stay through move_chunk(), extend(), rebase() and tail_chunk::replace,
  /// and end with the chunk. Chunks backed there later have rights(). grant() changes one device's
  /// right to these chunks too; set_access() of the whole region ends their own rights.
  /// - A device that gets a right must reach the devices of the placement and of these chunks.
  ///   Devices to which move_range() brought other chunks do not count.
  /// Throws: as grant(); std::out_of_range; std::invalid_argument, which names the bounds, if
  /// the range cuts a chunk or has a hole; unsupported if the device grants rights only to chunks
  /// of one size and these have several.
  void set_access(std::size_t offset, std::size_t bytes, const access_list& rights);
  /// The right of `device` to chunks backed next, and to all chunks without rights of their own.
  [[nodiscard]] access_right access(device_ref device) const noexcept;
  /// The access map: the rights of every device.
  [[nodiscard]] const access_map& rights() const;
  /// The rights to the chunk that contains `offset`: its own, or rights().
  /// Throws: std::invalid_argument if nothing is backed.
  [[nodiscard]] const access_map& rights_at(std::size_t offset) const;
  /// Asks HIP for the right of every device to each chunk that is partly in [offset, offset +
  /// bytes), by offset. If an entry differs from rights_at(), somebody else changed it.
  /// Cost: hipMemGetAccess for each chunk and device. Throws: std::out_of_range; hip_error.
  [[nodiscard]] std::vector<chunk_access> effective_access(std::size_t offset,
                                                           std::size_t bytes) const;

  /// Releases the chunks from byte `bytes` on once `stream` has passed this point. Returns their
  /// bytes.
  /// Waits for `stream`:
  /// - if its device has no access, and no copy_peer_async() named it together with an owner of the
  ///   chunks;
  /// - if nothing stays backed and memory returns only with its addresses, see empty_policy;
  /// - if `tail` is `replace`. Then a chunk that reaches across `bytes` is replaced too, at the
  ///   same address, if that frees more than an eighth of the bytes that stay, memory for it is
  ///   available, device() has read_write to it and grants rights to a chunk of that size there,
  ///   and no other process may use the chunk (physical_chunk::shared()).
  /// Pre: all work that uses the bytes is ordered before this call in `stream`.
  /// Throws: std::out_of_range; std::invalid_argument while `stream` is captured; hip_error; on any
  /// exception all bytes before `bytes` are as they were. See drain_retired_memory().
  std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail = tail_chunk::keep);

  /// Releases everything once all work that the devices with access have now is done. The region is
  /// then as moved from.
  /// - Does not block, with two exceptions: it waits for these devices while the process exits, or
  ///   if no thread can be started.
  /// - Later failures are reported to the error handler. See drain_retired_memory().
  /// - A thread of the library waits for the whole devices then, which ends stream captures under
  ///   way there with an error. Call trim(0, stream) before: then nothing is left to wait for.
  /// Pre: other devices' work that uses the bytes is done, or was submitted by copy_peer_async().
  /// If it is neither, first call trim(0, stream) in its stream.
  void retire() noexcept;

  /// Enlarges the reservation to at least `max_bytes` and backs [0, commit_bytes) as commit() does.
  /// Returns whether base() changed.
  /// - In place when the addresses after the end are free and copies may span two reservations;
  ///   else the same chunks are mapped into a larger reservation. No byte is copied.
  /// - When the base changes, it waits for every device that has access: work in flight uses the
  ///   old base.
  /// Throws: std::invalid_argument for a size below the present one; out_of_memory; on any
  /// exception nothing changed.
  bool extend(std::size_t max_bytes, std::size_t commit_bytes);

  /// Moves the region to a new reservation without the addresses before offset `from`: the byte at
  /// `from` is then at base(). The reservation has `max_bytes`, or more if the backed bytes need
  /// more. Backs [0, commit_bytes) as commit() does. No byte is copied.
  /// - Waits for every device that has access, as extend() does if the base changes.
  /// Pre: `from` is a multiple of granularity().
  /// Throws: std::invalid_argument if something is backed before `from`, or `commit_bytes`
  /// exceed `max_bytes`; as extend(); on any exception nothing changed.
  void rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes);

  /// Start of the reserved addresses. It is constant for the region's life, except:
  /// - extend() may change it, and returns whether it did; rebase() changes it.
  /// - If memory returns only with its addresses, trim() and decommit() that leave nothing backed,
  ///   trim() that replaces, and commit() and adopt() that fail while nothing is backed may change
  ///   it; see empty_policy.
  [[nodiscard]] void* base() const noexcept;
  /// Reserved bytes; may be less than the constructor requested.
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  /// Backed bytes, all chunks together.
  [[nodiscard]] std::size_t committed_bytes() const noexcept;
  /// Length in bytes of the backed range that starts at `offset`; zero if nothing is backed.
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept;
  [[nodiscard]] std::size_t chunk_count() const noexcept;
  /// Bytes of the chunk that begins at `offset`; zero if none does.
  [[nodiscard]] std::size_t chunk_bytes_at(std::size_t offset) const noexcept;
  /// Unit of commit and decommit in bytes: the device's minimum granularity.
  [[nodiscard]] std::size_t granularity() const noexcept;
  [[nodiscard]] device_ref device() const;
  /// Whether suspend() released its memory: committed_bytes() counts all that is backed after
  /// resume(); chunks(), chunk_count(), chunk_bytes_at() and committed_from() know only chunks that
  /// stay mapped.
  [[nodiscard]] bool is_asleep() const noexcept;
  /// The number of this region in memory_event::object; 0 if it was moved from.
  [[nodiscard]] std::uint64_t event_id() const noexcept;

 private:
  // For vectors, pools, arenas and importers: src/region/chunks/region_chunks.hpp.
  friend detail::region_state& detail::implementation_of(const region& of);
  friend region detail::region_at(void* address, device_ref device, std::size_t max_bytes,
                                  const region_options& options);
  region(device_ref device, std::size_t max_bytes, const region_options& options, void* address);
  [[nodiscard]] detail::region_state& live() const;

  std::unique_ptr<detail::region_state> state_;
};

}  // namespace hipvmm
