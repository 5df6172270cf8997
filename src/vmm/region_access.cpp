// SPDX-License-Identifier: MIT
// The part of region that maps and says who may use what is mapped.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "vmm/region_state.hpp"
#include "vmm/retirement.hpp"

namespace hipvmm {
namespace {

/// Where the neighbouring mappings begin that end at `offset` within one reservation, by the
/// backings of `maps`, which are all mapped in `range`.
std::size_t run_start(const address_range& range, std::initializer_list<const backing_map*> maps,
                      std::size_t offset) {
  const std::size_t part = range.part_start(offset);
  while (offset > part) {
    std::size_t start = offset;
    for (const backing_map* const map : maps) {
      const auto at = map->lower_bound(offset);
      if (at == map->begin()) continue;
      const auto& [first, before] = *std::prev(at);
      if (first + before.bytes() == offset && !before.map.empty()) start = first;
    }
    if (start == offset) break;
    offset = start;
  }
  return offset;
}

/// Makes `change(address, bytes)`, a call of hipMemSetAccess, for the mapping at `offset`.
/// ROCm 7.0 to 7.2 refuse a mapping behind another and take all of them from the first on; these
/// have the same rights, so naming them again changes nothing. Where a probe met that, the call is
/// made so (ggml-org/llama.cpp#23900: always so on gfx1151); elsewhere it is made so when the other
/// form was refused, for it may fail now and then (ROCm/rocm-systems#6977: 70 % of the runs on
/// gfx942). May go when no supported release fails the probe.
template <class Change>
void change_access(const capability& known, const address_range& range,
                   std::initializer_list<const backing_map*> maps, std::size_t offset,
                   std::size_t bytes, Change change) {
  const auto at = [&range](std::size_t where) { return static_cast<char*>(range.base()) + where; };
  const std::uint64_t seen = detail::retired_so_far();
  if (!known.needs(quirk::access_from_base)) {
    try {
      change(at(offset), bytes);
      return;
    } catch (const hip_error& error) {
      if (error.code() != hipErrorInvalidValue) throw;
      // Chunks that are still to be given back are mapped too, and in none of the maps.
      detail::finish_retired(range, 0, offset);
      if (run_start(range, maps, offset) == offset && detail::retired_so_far() == seen) throw;
    }
  }
  detail::finish_retired(range, 0, offset);
  const std::size_t run = run_start(range, maps, offset);
  change(at(run), offset + bytes - run);
}

}  // namespace

void region::mapped::apply_rights(const address_range& range, std::size_t offset, std::size_t bytes,
                                  const backing_map& made) const {
  change_access(known, range, {&backings, &left_behind, &prepared, &made}, offset, bytes,
                [this](void* start, std::size_t length) { rights.apply(start, length); });
}

void region::mapped::set_right(std::size_t offset, std::size_t bytes, access_desc desc) const {
  change_access(known, *addresses, {&backings, &left_behind}, offset, bytes,
                [desc](void* start, std::size_t length) { set_access(start, length, desc); });
}

mapping region::mapped::map_with_rights(const address_range& range, std::size_t offset,
                                        const physical_chunk& chunk,
                                        const backing_map& made) const {
  const map_answer answer =
      known.needs(quirk::verify_maps) ? map_answer::verified : map_answer::believed;
  mapping result = range.map(offset, chunk, answer);
  apply_rights(range, offset, result.bytes(), made);
  return result;
}

mapping region::mapped::map_here(std::size_t offset, const physical_chunk& chunk) {
  try {
    return map_with_rights(*addresses, offset, chunk);
  } catch (...) {
    holds_memory = true;
    throw;
  }
}

detail::moment region::mapped::visible_if_mapped_now() const {
  if (!known.needs(quirk::settle_mappings)) return {};
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(known.settle_time());
}

void region::mapped::await_visible(std::size_t offset, std::size_t bytes) const noexcept {
  detail::moment last{};
  auto at = backings.upper_bound(offset);
  if (at != backings.begin()) --at;
  for (; at != backings.end() && at->first < offset + bytes; ++at)
    last = std::max(last, at->second.visible);
  detail::wait_until(last);
}

}  // namespace hipvmm
