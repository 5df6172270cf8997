// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <hipvmm/region/region.hpp>
#include "region/backing.hpp"
#include "vmm/address_range.hpp"

namespace hipvmm::detail {

/// A chunk, or a mapping that a moved chunk left behind, that was taken out of its region and is
/// still mapped. To the region its addresses are free; they must not be backed before release().
class detached_chunk {
 public:
  detached_chunk(std::shared_ptr<address_range> addresses, backing what)
      : addresses_{std::move(addresses)}, what_{std::move(what)} {}
  /// Unmaps the rest; the address range keeps mappings that HIP refuses to unmap.
  ~detached_chunk() {
    if (addresses_) what_.unmap_in(*addresses_);
  }
  detached_chunk(detached_chunk&&) = default;
  detached_chunk& operator=(detached_chunk&&) = delete;

  [[nodiscard]] mapping& map() noexcept { return what_.map; }
  /// Pre: release() has not succeeded.
  [[nodiscard]] const address_range& addresses() const noexcept { return *addresses_; }

  /// Unmaps it, unless a run did, and releases the chunk. Thread-safe with all use of the region.
  /// Throws: hip_error; then it is still mapped.
  void release() {
    what_.map.deregister();
    what_.map.unmap();
    addresses_->refused().keep_chunk(what_.chunk);
    what_ = {};
    addresses_.reset();
  }

 private:
  std::shared_ptr<address_range> addresses_;  // outlives the mapping
  backing what_;
};

/// Mappings that HIP refused to unmap when an operation of a region failed, taken out of the
/// region. To the region their addresses are free; they must not be backed before release().
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
  /// Bytes of the chunks that nothing else holds.
  [[nodiscard]] std::size_t chunk_bytes() const noexcept {
    std::size_t sum = 0;
    for (const refused_unmaps::entry& each : entries_) sum += each.chunk.bytes();
    return sum;
  }
  /// Unmaps and releases like detached_chunk::release().
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

/// Takes out the refused mappings that are partly in [offset, offset + bytes) of a region of mapped
/// chunks.
[[nodiscard]] refused_mappings take_refused(region& from, std::size_t offset,
                                            std::size_t bytes) noexcept;

/// Takes the chunk that begins at `offset` out of a region of mapped chunks.
/// Pre: nothing in flight uses it.
/// Throws: std::invalid_argument unless a chunk begins there; std::bad_alloc.
[[nodiscard]] detached_chunk detach_chunk(region& from, std::size_t offset);
/// The same for the mapping that region::move_chunk() left at `offset`, instead of
/// region::end_move().
[[nodiscard]] detached_chunk detach_left_behind(region& from, std::size_t offset);

/// Moves the chunks that begin at the offsets `from` to neighbouring addresses from `to` on, all or
/// none. As region::move_chunk(), but neighbours get their rights by one call.
void move_chunks(region& in, const std::vector<std::size_t>& from, std::size_t to);

}  // namespace hipvmm::detail
