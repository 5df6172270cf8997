// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <ranges>

#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "vmm/address_range.hpp"

namespace hipvmm {

namespace detail {

using moment = std::chrono::steady_clock::time_point;

void wait_until(moment when) noexcept;

[[nodiscard]] std::uint64_t waits_so_far() noexcept;

}  // namespace detail

/// A chunk and its mapping, or the old mapping of a chunk that moves. The members' order unmaps
/// before it releases.
struct backing {
  physical_chunk chunk;
  mapping map;
  detail::moment visible = {};                             // from then on all work sees the bytes
  ihipMemGenericAllocationHandle* elsewhere = nullptr;     // the mapped chunk if `chunk` is empty
  std::uint64_t serial = 0;                                // as chunk_view::serial
  std::shared_ptr<const access_map> own_rights = nullptr;  // null: the region's

  [[nodiscard]] std::size_t bytes() const noexcept {
    return chunk.empty() ? map.bytes() : chunk.bytes();
  }
  /// If HIP refuses, reports that and keeps mapping and chunk in `range`.
  void unmap_in(const address_range& range) noexcept {
    range.refused().unmap_or_defer(map, chunk.empty() ? elsewhere : chunk.get(), &chunk);
  }
};

using backing_map = std::map<std::size_t, backing>;  ///< by offset in the region; none overlap

/// Those that are partly in [offset, offset + bytes).
template <class Map>
[[nodiscard]] auto backings_within(Map& map, std::size_t offset, std::size_t bytes) noexcept {
  if (bytes == 0) return std::ranges::subrange{map.end(), map.end()};
  auto first = map.upper_bound(offset);
  if (first != map.begin()) {
    const auto before = std::prev(first);
    if (before->first + before->second.bytes() > offset) first = before;
  }
  return std::ranges::subrange{first, map.lower_bound(offset + bytes)};
}

[[nodiscard]] inline bool has_backing_within(const backing_map& map, std::size_t offset,
                                             std::size_t bytes) noexcept {
  return !backings_within(map, offset, bytes).empty();
}

/// Unmaps from the highest address down: after a refusal all below are still mapped, so that those
/// above can be mapped again. HIP might refuse rights above a hole. One call unmaps several
/// neighbours if `range` allows it.
class downward_unmaps {
 public:
  static constexpr std::size_t fewest = 4;  // fewer are not worth a call that HIP may refuse
  static constexpr std::size_t most = 64;   // more would hold HIP's lock too long
  /// For a mapping that no common call unmaps: its own call, or none.
  enum class alone { unmapped, left };
  explicit downward_unmaps(const address_range& range, alone single = alone::unmapped) noexcept
      : range_{range}, single_{single} {}
  /// Pre: `next` is below all before. Throws, but not with alone::left: hip_error; then some stay
  /// mapped.
  void add(mapping& next);
  /// Throws: as add().
  void finish();

 private:
  const address_range& range_;
  alone single_;
  std::array<mapping*, most> run_{};  // downwards
  std::size_t count_ = 0;
};

/// If `range` allows common unmaps: deregisters all of `maps` and unmaps those that one call undoes
/// together with others. Refused ones stay mapped; a refusal other than InvalidValue is reported.
template <class Maps, class MapOf>
void unmap_runs(Maps& maps, MapOf map_of, const address_range& range) noexcept {
  if (!range.unmaps_many()) return;
  for (auto& each : maps) map_of(each).deregister();
  downward_unmaps runs{range, downward_unmaps::alone::left};
  for (auto at = maps.rbegin(); at != maps.rend(); ++at) runs.add(map_of(*at));
  runs.finish();
}

/// As backing::unmap_in() for all.
void unmap_all(backing_map& backings, const address_range& range) noexcept;
/// The same, and then recycles the chunks. In between frees the addresses, so that they pin no
/// memory, if `range` is the last reference.
void recycle_all(backing_map& backings, std::shared_ptr<address_range> range,
                 chunk_cache& cache) noexcept;
/// As unmap_all(), and then releases the chunks to the device; `cache` keeps pinned ones.
void release_all(backing_map& backings, const address_range& range, chunk_cache& cache) noexcept;

}  // namespace hipvmm
