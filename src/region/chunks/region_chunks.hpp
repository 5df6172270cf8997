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

namespace hipvmm::detail {

/// A chunk, or the old mapping of a moved chunk, taken out of its region and still mapped. The
/// region counts its addresses as free, but must not back them before release().
class detached_chunk {
 public:
  detached_chunk(std::shared_ptr<address_range> addresses, backing what)
      : addresses_{std::move(addresses)}, what_{std::move(what)} {}
  ~detached_chunk() {
    if (addresses_) what_.unmap_in(*addresses_);
  }
  detached_chunk(detached_chunk&&) = default;
  detached_chunk& operator=(detached_chunk&&) = delete;

  [[nodiscard]] mapping& map() noexcept { return what_.map; }
  /// Pre: not released.
  [[nodiscard]] const address_range& addresses() const noexcept { return *addresses_; }

  /// Unmaps it, if unmap_runs() has not, and gives the chunk to the taker of `asked` or releases
  /// it. Returns the bytes that the taker got. Other threads may use the region meanwhile. Throws:
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

/// Mappings that HIP refused to unmap, taken out of their region. The destructor puts them back.
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
/// As end_move(), but leaves the unmap to the result.
[[nodiscard]] detached_chunk detach_old_mapping(region& from, std::size_t offset);

/// As region::move_chunk() for several chunks, one behind the other from `to` on, all or none.
void move_chunks(region& in, const std::vector<std::size_t>& from, std::size_t to);

/// As region::adopt(), by offset, all or none.
void adopt_chunks(region& in, std::map<std::size_t, physical_chunk>& chunks);

/// reference_to() the chunk that begins at `offset`, for a second offset. Throws:
/// std::invalid_argument unless a chunk begins there; std::bad_alloc.
[[nodiscard]] physical_chunk reference_chunk(region& of, std::size_t offset);

/// Replaces the chunks that begin at `offsets` by copies with the same rights, all or none. Waits
/// for `stream`. Pre: `stream`, of a device with access, orders all work on these addresses before
/// this call; none is submitted before it returns. Throws: std::invalid_argument unless chunks
/// begin there; out_of_memory; hip_error.
void copy_chunks(region& in, const std::vector<std::size_t>& offsets, stream_ref stream);

/// Lets commit() use pinned chunks of the cache (is_pinned()) before it creates one: several
/// smaller ones, or one up to an eighth larger; if the device is full, one still larger. Pre: the
/// region is backed without holes.
void use_pinned_chunks(region& of);

/// If nothing is backed, frees the addresses and reserves them again, which returns the memory that
/// they pin. Waits for memory that was retired from them, and on ROCm 6 for the devices with
/// access. Reports failures. If others took the addresses, the next commit() reserves them, or
/// throws out_of_memory with exhausted::addresses.
void return_pinned_memory(region& of) noexcept;

/// A region without a tag, for an object that carries one: at private addresses
/// (reserve_private_range()) if there are any.
[[nodiscard]] region region_aside(device_ref device, std::size_t max_bytes,
                                  const region_options& options);
/// Throws: as the constructor of region_state.
[[nodiscard]] region region_at(void* address, device_ref device, std::size_t max_bytes,
                               const region_options& options);

}  // namespace hipvmm::detail
