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

/// A chunk and its mapping, or a mapping that a moved chunk left behind. The members' order unmaps
/// before it releases.
struct backing {
  physical_chunk chunk;
  mapping map;
  detail::moment visible = {};                             // from then on all work sees the bytes
  ihipMemGenericAllocationHandle* elsewhere = nullptr;     // the mapped chunk if `chunk` is empty
  std::uint64_t serial = 0;                                // chunk_view::serial, once in the region
  std::shared_ptr<const access_map> own_rights = nullptr;  // if they differ from the region's

  [[nodiscard]] std::size_t bytes() const noexcept {
    return chunk.empty() ? map.bytes() : chunk.bytes();
  }
  /// A mapping that HIP refuses to unmap is reported and kept in `range`, with the chunk.
  void unmap_in(const address_range& range) noexcept {
    range.refused().unmap_or_defer(map, chunk.empty() ? elsewhere : chunk.get(), &chunk);
  }
};

/// By offset in the region. None overlap.
using backing_map = std::map<std::size_t, backing>;

/// Those of `map` that are partly in [offset, offset + bytes).
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

/// Unmaps mappings in `range` from the highest address to the lowest: if HIP refuses one, those
/// above it are mapped again without a hole below them, because HIP might refuse rights beside a
/// hole. If the range allows that, one call unmaps 4 to 64 neighbours: fewer are not worth a failed
/// call, which does not say which are still mapped; more would hold HIP's lock too long. If HIP
/// refuses the call with InvalidValue, each is unmapped by its own call, or left (`alone`).
class downward_unmaps {
 public:
  static constexpr std::size_t fewest = 4;
  static constexpr std::size_t most = 64;
  /// A mapping that no call undoes together with others is unmapped by its own call, or left.
  enum class alone { unmapped, left };
  explicit downward_unmaps(const address_range& range, alone single = alone::unmapped) noexcept
      : range_{range}, single_{single} {}
  /// Pre: `next` is below all before.
  /// Throws, but not with alone::left: hip_error; then `next` or some before it are still mapped.
  void add(mapping& next);
  /// Throws: as add().
  void finish();

 private:
  const address_range& range_;
  alone single_;
  std::array<mapping*, most> run_{};  // the first at the highest address
  std::size_t count_ = 0;
};

/// If `range` allows common unmaps: deregisters all mappings, `map_of(each)` of each in `maps`, and
/// unmaps those that one call undoes together with others. Refused ones stay; a refusal other than
/// InvalidValue is reported.
template <class Maps, class MapOf>
void unmap_runs(Maps& maps, MapOf map_of, const address_range& range) noexcept {
  if (!range.unmaps_many()) return;
  for (auto& each : maps) map_of(each).deregister();
  downward_unmaps runs{range, downward_unmaps::alone::left};
  for (auto at = maps.rbegin(); at != maps.rend(); ++at) runs.add(map_of(*at));
  runs.finish();
}

/// Unmaps all `backings`, which are mapped in `range`. Refused mappings are reported and kept
/// there.
void unmap_all(backing_map& backings, const address_range& range) noexcept;
/// The same, and then recycles their chunks to `cache`. If the caller is the last owner of `range`,
/// its addresses are freed in between, so that they pin no memory.
void recycle_all(backing_map& backings, std::shared_ptr<address_range> range,
                 chunk_cache& cache) noexcept;
/// The same, but releases the chunks to the device; `cache` keeps those with pinned memory.
void release_all(backing_map& backings, const address_range& range, chunk_cache& cache) noexcept;

}  // namespace hipvmm
