// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "region/backing.hpp"
#include "vmm/address_range.hpp"
#include "vmm/idle/idle_memory.hpp"

// Calls by which vectors, pools, arenas and importers use the chunks of a region.
namespace hipvmm::detail {

/// A chunk, or a mapping that a moved chunk left behind, taken out of its region and still mapped.
/// To the region its addresses are free; they must not be backed before release().
class detached_chunk {
 public:
  detached_chunk(std::shared_ptr<address_range> addresses, backing what)
      : addresses_{std::move(addresses)}, what_{std::move(what)} {}
  /// The range keeps a mapping that HIP refuses to unmap.
  ~detached_chunk() {
    if (addresses_) what_.unmap_in(*addresses_);
  }
  detached_chunk(detached_chunk&&) = default;
  detached_chunk& operator=(detached_chunk&&) = delete;

  [[nodiscard]] mapping& map() noexcept { return what_.map; }
  /// Pre: release() has not succeeded.
  [[nodiscard]] const address_range& addresses() const noexcept { return *addresses_; }

  /// Unmaps it, if unmap_runs() has not, and gives the chunk to the taker of `asked`, or releases
  /// it. Returns the bytes that the taker got. Thread-safe with all use of the region. Throws:
  /// hip_error, then it is still mapped.
  std::size_t release(const idle_request* asked = nullptr) {
    what_.map.deregister();
    what_.map.unmap();
    const bool moves = !addresses_->refused().take_if_mapped(what_.chunk) && asked != nullptr &&
                       asked->takes(what_.chunk);
    const std::size_t moved = moves ? what_.chunk.bytes() : 0;
    if (moves) asked->taker->recycle(std::move(what_.chunk));
    what_ = {};
    addresses_.reset();
    return moved;
  }

 private:
  std::shared_ptr<address_range> addresses_;  // outlives the mapping
  backing what_;
};

/// Mappings that HIP refused to unmap when an operation of a region failed, taken out of it as a
/// detached_chunk is.
class refused_mappings {
 public:
  refused_mappings() = default;
  refused_mappings(std::shared_ptr<address_range> addresses, refused_unmaps::list entries) noexcept
      : addresses_{std::move(addresses)}, entries_{std::move(entries)} {}
  ~refused_mappings() {
    if (addresses_) addresses_->refused().put_back(entries_);
  }
  refused_mappings(refused_mappings&&) = default;
  refused_mappings& operator=(refused_mappings&&) = delete;

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  /// Of chunks that nothing else holds.
  [[nodiscard]] std::size_t chunk_bytes() const noexcept {
    std::size_t sum = 0;
    for (const refused_unmaps::entry& each : entries_) sum += each.chunk.bytes();
    return sum;
  }
  /// As detached_chunk::release().
  void release() {
    while (!entries_.empty()) {
      entries_.front().unmap();
      entries_.pop_front();
    }
    addresses_.reset();
  }

 private:
  std::shared_ptr<address_range> addresses_;
  refused_unmaps::list entries_;
};

/// Takes out those that are partly in [offset, offset + bytes).
[[nodiscard]] refused_mappings take_refused(region& from, std::size_t offset,
                                            std::size_t bytes) noexcept;

/// Takes out the chunk that begins at `offset`, and releases a prepared one. Pre: nothing in flight
/// uses it. Throws: std::invalid_argument unless a chunk begins there; hip_error; std::bad_alloc.
[[nodiscard]] detached_chunk detach_chunk(region& from, std::size_t offset);
/// The same for the mapping that region::move_chunk() left at `offset`, instead of end_move().
[[nodiscard]] detached_chunk detach_old_mapping(region& from, std::size_t offset);

/// As region::move_chunk() for the chunks that begin at `from`, to neighbouring addresses from `to`
/// on, all or none. Neighbours get their rights by one call.
void move_chunks(region& in, const std::vector<std::size_t>& from, std::size_t to);

/// As region::adopt(), by offset, all or none. Neighbours get their rights by one call.
void adopt_chunks(region& in, std::map<std::size_t, physical_chunk>& chunks);

/// Another owner of the chunk that begins at `offset`, to be adopted at a second offset: see
/// reference_to(). Throws: std::invalid_argument unless a chunk begins there; std::bad_alloc.
[[nodiscard]] physical_chunk reference_chunk(region& of, std::size_t offset);

/// Replaces the chunks that begin at `offsets` by copies, with the same rights, all or none. Copies
/// in `stream`, and waits for it. Pre: all work that uses these addresses is ordered before this
/// call in `stream`, of a device with access, and none is submitted before it returns. Throws:
/// std::invalid_argument unless chunks begin there; out_of_memory; hip_error.
void copy_chunks(region& in, const std::vector<std::size_t>& offsets, stream_ref stream);

/// Lets commit() back a gap with pinned chunks of the cache (is_pinned()) before it creates one:
/// several smaller ones, or one up to an eighth larger; if the device is full, one still larger.
/// For a region that is backed from one offset on without holes.
void use_pinned_chunks(region& of);

/// If nothing is backed: frees the addresses and reserves the same again, because only that returns
/// memory that they pinned. Waits for memory that was retired from them, and on ROCm 6 for the
/// devices with access. A failure is reported. If others took the addresses in between, the next
/// commit() reserves them, or throws out_of_memory with exhausted::addresses.
void return_pinned_memory(region& of) noexcept;

/// A region without a tag, for an object that carries one, at addresses that nobody else gets by
/// chance (reserve_private_range()), if there are any.
[[nodiscard]] region region_aside(device_ref device, std::size_t max_bytes,
                                  const region_options& options);
/// A region that begins at `address`, with all of `max_bytes`. Throws: as the constructor of
/// region_state.
[[nodiscard]] region region_at(void* address, device_ref device, std::size_t max_bytes,
                               const region_options& options);

}  // namespace hipvmm::detail
