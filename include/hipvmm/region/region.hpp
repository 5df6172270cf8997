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

/// Reserved addresses, the chunks mapped there and the rights of devices to them.
/// - One thread at a time may use a region. Kernels and copies may use committed bytes throughout.
/// - A function that throws changes no backed bytes and no rights, except trim(). Besides the
///   exceptions that it names: hip_error; std::out_of_range beyond max_bytes();
///   std::invalid_argument for an offset or size that is no multiple of granularity(), a stream
///   under capture, and a moved-from region; std::logic_error while region_options::tag sleeps,
///   from functions that need or change memory or rights.
/// - Pre of functions with a `stream`: it orders all work on the bytes before the call.
/// - From move_chunk() until end_move() the chunk has two addresses. Meanwhile commit() and adopt()
///   at the old one, decommit() and move_range() of the chunk, trim(), extend() and rebase() throw
///   std::invalid_argument.
class region {
 public:
  /// Reserves `max_bytes` of addresses, rounded up to the granularity, and backs none. If so many
  /// are not available, waits for retired addresses, then halves the size until it fits.
  /// Throws: std::invalid_argument if there is no such device or `max_bytes` is zero;
  /// std::length_error if whole granules of `max_bytes` exceed the address space; out_of_memory if
  /// even one granule is refused; unsupported on a device without usable virtual memory; as
  /// access_map::set.
  region(device_ref device, std::size_t max_bytes, const region_options& options = {});
  /// Pre: nothing in flight uses the bytes; see retire().
  ~region();
  region(region&& other) noexcept;
  region& operator=(region&& other) noexcept;

  /// Backs each gap in [offset, offset + bytes) with one new chunk, or with several: cut after
  /// `largest_chunk` bytes, and at the ends of stripes, budgets and reservations. Takes all of a
  /// prepared chunk that is partly in the range. May wait for retired memory in the range, or
  /// anywhere if the device is full, and until work sees the new mappings.
  /// Throws: out_of_memory, which names the held bytes; unsupported if the device grants rights
  /// only to chunks of one size and this commit adds another size beside a hole.
  void commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk = one_chunk);
  static constexpr std::size_t one_chunk = ~std::size_t{0};

  /// Backs the bytes from `offset` on with `chunk`, which was imported, retained (retain_chunk())
  /// or made by the caller. Releases a prepared chunk. May wait as commit().
  /// Throws: std::invalid_argument if something is backed there, if the chunk is empty, or of a
  /// device that is neither device() nor that of a stripe; unsupported as commit().
  void adopt(std::size_t offset, physical_chunk&& chunk);
  [[nodiscard]] std::vector<chunk_view> chunks() const;  ///< by offset
  /// Exports the chunks with a serial greater than `since`, by serial. With the last serial of the
  /// previous list as `since`, the new list has only new, moved and replaced chunks; compare with
  /// chunks() for released ones. The chunk cache never reuses an exported chunk, and trim() does
  /// not replace it. Cost: a file descriptor each, until the result ends.
  /// Throws: std::invalid_argument if one was made without handle_type::posix_fd; out_of_memory if
  /// no descriptor is left.
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since = 0);
  /// The same as fabric handles. These own no memory: the chunks must live until they are imported.
  /// Throws: std::invalid_argument if a chunk was made without handle_type::fabric.
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since = 0);
  /// Exports the chunks that hold [offset, offset + bytes), of any alignment: the receiver reaches
  /// all of their bytes. Throws: as export_chunks(); std::invalid_argument for no bytes, or if not
  /// all are backed.
  [[nodiscard]] exported_range export_range(std::size_t offset, std::size_t bytes);

  /// Has a background thread make a chunk behind the last one, of `bytes` bytes or as many as fit.
  /// Does nothing while a chunk is prepared or under way, while retired chunks are mapped in the
  /// region, and after a failure until the next call that adds, moves or releases chunks.
  /// - A commit() that reaches the chunk takes all of it, or makes it if the thread has not begun.
  /// - trim(), and decommit() of the last chunk, release it. Until the next call that changes the
  ///   region, another object that lacks memory may get it (idle_memory()).
  /// - Calls that change the region cancel the order, or wait for the HIP calls of one chunk.
  void prepare(std::size_t bytes, prefetch_level how);
  /// Cancels prepare(), or waits for it if it has begun. Returns prepared_bytes().
  std::size_t cancel_or_wait() noexcept;
  /// Bytes of the prepared chunk; zero while it is being made.
  [[nodiscard]] std::size_t prepared_bytes() const noexcept;
  /// How often HIP refused a preparation, or the system a thread for it.
  [[nodiscard]] std::size_t failed_preparations() const noexcept;

  /// Releases every chunk that is wholly in [offset, offset + bytes). Returns their bytes.
  /// Pre: nothing in flight uses the bytes.
  std::size_t decommit(std::size_t offset, std::size_t bytes);
  /// The same once `stream` has passed this point. The chunks stay mapped until then, and a
  /// commit() of their addresses waits for that. Waits for `stream` in the cases of trim() with
  /// tail_chunk::keep.
  std::size_t decommit(std::size_t offset, std::size_t bytes, stream_ref stream);

  /// Copies the chunks of [offset, offset + bytes) in `stream` to memory of `to`, waits for the
  /// copy, and maps the new chunks in place of the old ones. Returns the bytes moved.
  /// - Needs memory for all of them at `to`. Releases a prepared chunk. base() may change.
  /// - Rights and region_options::placement stay. A process that imported an old chunk keeps that
  ///   memory, and no longer shares the bytes.
  /// Pre: `stream` is of a device with access. No work on the bytes is submitted during the call.
  /// Throws: std::invalid_argument if the range cuts a chunk, if `to` is a device without
  /// read_write, or if a chunk gives its own device or `to` no right; unsupported if a device with
  /// access does not reach `to`, and if chunks of this kind (region_options::memory, shareable)
  /// cannot be made there; out_of_memory.
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream);

  /// Whether all devices with chunks show the same bytes at two addresses of a chunk
  /// (docs/reference/capability.md).
  [[nodiscard]] bool can_move_chunks() const noexcept;
  /// Moves the chunk that begins at `from`, with its rights, to offset `to`, while work may use it.
  /// The mapping at `from` stays until end_move(from). Until then prepare() does nothing.
  /// Throws: std::invalid_argument unless a chunk begins at `from` and the target addresses are
  /// free; unsupported unless can_move_chunks().
  void move_chunk(std::size_t from, std::size_t to);
  /// Unmaps the chunk at its old offset `from`. Pre: nothing in flight uses these addresses.
  /// Throws: std::invalid_argument if no moved chunk is mapped there.
  void end_move(std::size_t from);

  /// Sets the right of `device` to all bytes backed now and later.
  /// - From ROCm 7.14 on waits for work that may use the bytes, because work might access wrong
  ///   pages while rights change (a defect of 7.14 to 10.0). Work submitted meanwhile may do so.
  /// Pre: if `device` loses a right, none of its work in flight needs it: HIP removes it at once.
  /// Throws: as access_map::set.
  void grant(device_ref device, access_right right = access_right::read_write);
  void revoke(device_ref device) { grant(device, access_right::none); }
  /// Replaces all rights to all bytes backed now and later; access_list has the defaults. One call
  /// of HIP for each run of neighbours with the same rights, if HIP takes several chunks. Waits,
  /// Pre and Throws: as grant().
  void set_access(const access_list& rights);
  /// Gives the chunks that fill [offset, offset + bytes) rights of their own. These follow the
  /// chunk and its replacements until it is released, or until set_access() of the whole region.
  /// grant() changes them too. A device that gets a right must reach the devices of the placement
  /// and of these chunks, not those of other chunks.
  /// Throws: as grant(); std::invalid_argument if the range cuts a chunk or has a hole; unsupported
  /// if the device grants rights only to chunks of one size and the region has several sizes.
  void set_access(std::size_t offset, std::size_t bytes, const access_list& rights);
  /// The right of `device` to chunks backed next, and to all chunks without rights of their own.
  [[nodiscard]] access_right access(device_ref device) const noexcept;
  [[nodiscard]] const access_map& rights() const;
  /// The chunk's own rights, or rights(). Throws: std::invalid_argument if nothing is backed.
  [[nodiscard]] const access_map& rights_at(std::size_t offset) const;
  /// Asks HIP for the rights to each chunk that is partly in [offset, offset + bytes), by offset.
  /// They differ from rights_at() if other code changed them. Cost: a call per chunk and device.
  [[nodiscard]] std::vector<chunk_access> effective_access(std::size_t offset,
                                                           std::size_t bytes) const;

  /// Releases the chunks from byte `bytes` on, of any alignment, once `stream` has passed this
  /// point. Returns their bytes. On any exception those before `bytes` are unchanged. Waits for
  /// `stream`
  /// - if its device has no access, and no copy_peer_async() named it with an owner of chunks;
  /// - if nothing stays backed and memory returns only with its addresses (empty_policy);
  /// - if `tail` is `replace`. Then a smaller chunk replaces one that reaches across `bytes`, at
  ///   the same address, if that frees more than an eighth of the bytes that stay, memory for it is
  ///   available, device() has read_write to the chunk and can grant rights to the smaller one, and
  ///   no other process may use the chunk (physical_chunk::shared()).
  std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail = tail_chunk::keep);

  /// Releases everything once all present work of the devices with access has ended, and leaves the
  /// region as moved from. A thread of the library waits; the call itself waits only while the
  /// process exits, or if no thread can be started. The wait invalidates stream captures under way
  /// on these devices. After trim(0, stream) nothing waits; on ROCm 6.1 to 6.4 only if the trim has
  /// re-reserved the addresses (empty_policy). The error handler gets later failures.
  /// Pre: work of devices without access has ended, or was submitted by copy_peer_async(); if
  /// neither, first call trim(0, stream) in its stream.
  void retire() noexcept;

  /// Enlarges the reservation to at least `max_bytes` and backs [0, commit_bytes) as commit() does;
  /// both are rounded up. Returns whether base() changed: not if the addresses behind the end are
  /// free and copies may span two reservations. Otherwise maps the same chunks in a larger
  /// reservation, waits for every device with access, because work uses the old base, and unmaps
  /// the old addresses.
  /// Throws: std::invalid_argument if `max_bytes` is below max_bytes(), or `commit_bytes` above
  /// `max_bytes`; as commit().
  bool extend(std::size_t max_bytes, std::size_t commit_bytes);

  /// Maps the chunks in a new reservation, without the addresses before offset `from`: the byte at
  /// `from` is then at base(). The reservation has `max_bytes`, or more if the backed bytes need
  /// it. Backs [0, commit_bytes) as commit() does; both sizes are rounded up. Waits for every
  /// device with access.
  /// Throws: std::invalid_argument if something is backed before `from`, `max_bytes` is zero, or
  /// `commit_bytes` is above `max_bytes`; as commit().
  void rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes);

  /// Start of the reserved addresses. rebase() changes it, and extend() if it returns true. If
  /// memory returns only with its addresses (empty_policy), these may change it too: a call that
  /// leaves nothing backed, move_range(), a trim() that replaces, and a commit(), adopt(), extend()
  /// or rebase() that fails while nothing is backed.
  [[nodiscard]] void* base() const noexcept;
  /// Reserved bytes; may be less than the constructor requested.
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  /// Backed bytes; while asleep, those that resume() backs again.
  [[nodiscard]] std::size_t committed_bytes() const noexcept;
  /// Bytes backed without a gap from `offset` on.
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept;
  [[nodiscard]] std::size_t chunk_count() const noexcept;
  /// Zero if no chunk begins at `offset`.
  [[nodiscard]] std::size_t chunk_bytes_at(std::size_t offset) const noexcept;
  /// Unit of offsets and sizes in bytes: the greatest minimum granularity of its devices.
  [[nodiscard]] std::size_t granularity() const noexcept;
  [[nodiscard]] device_ref device() const;
  /// Whether suspend() released its memory. Then chunks(), chunk_count(), chunk_bytes_at() and
  /// committed_from() know only chunks that stay mapped.
  [[nodiscard]] bool is_asleep() const noexcept;
  /// The number of this region in memory_event::object; 0 if it was moved from.
  [[nodiscard]] std::uint64_t event_id() const noexcept;

 private:
  // For src/region/chunks/region_chunks.hpp.
  friend detail::region_state& detail::implementation_of(const region& of);
  friend region detail::region_at(void* address, device_ref device, std::size_t max_bytes,
                                  const region_options& options);
  region(device_ref device, std::size_t max_bytes, const region_options& options, void* address);
  [[nodiscard]] detail::region_state& live() const;

  std::unique_ptr<detail::region_state> state_;
};

}  // namespace hipvmm
