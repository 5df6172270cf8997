// SPDX-License-Identifier: MIT
// The part of region that maps and says who may use what is mapped.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"
#include "vmm/access.hpp"

namespace hipvmm::detail {
namespace {

/// The mappings of one reservation, by offset.
class mapped_sizes {
 public:
  void add(std::size_t offset, std::size_t bytes) {
    start_ = std::min(start_, offset);
    end_ = std::max(end_, offset + bytes);
    sum_ += bytes;
    if (size_ == 0) size_ = bytes;
    has_one_size_ = has_one_size_ && bytes == size_;
  }
  [[nodiscard]] bool has_no_hole() const noexcept { return sum_ == bytes(); }
  [[nodiscard]] bool has_one_size() const noexcept { return has_one_size_; }
  [[nodiscard]] std::size_t start() const noexcept { return start_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return end_ - start_; }

 private:
  std::size_t start_ = std::numeric_limits<std::size_t>::max();
  std::size_t end_ = 0;
  std::size_t sum_ = 0;
  std::size_t size_ = 0;
  bool has_one_size_ = true;
};

}  // namespace

// ROCm 7.0 to 7.2 take a range only where it is as long as the first mappings of its reservation
// together, counted in the order of heap addresses (ROCm/rocm-systems#2516, #6977;
// ggml-org/llama.cpp#23900). That holds for all mappings at once, and for one where all have one
// size. All mappings have the same rights, so naming more of them changes nothing. Where a probe
// met that, the call is made so; elsewhere when the other form was refused, for it may fail now and
// then. May go when no supported release fails the probe tail_access.
template <class Change>
void mapped_region::change_access(const mapped_there& there, std::size_t offset, std::size_t bytes,
                                  Change change) const {
  const address_range& range = there.range;
  const auto at = [&range](std::size_t where) { return static_cast<char*>(range.base()) + where; };
  const std::uint64_t seen = retired_so_far();
  const bool is_own = &range == addresses.get();
  const bool refuses = known.needs(quirk::access_from_base);
  // Chunks that are still to be released are mapped too, and in none of the maps.
  const bool has_retired = is_own && addresses.use_count() > 1;
  std::optional<hip_error> refused;
  if (!refuses || (has_retired && range.had_one_size())) {
    try {
      change(at(offset), bytes);
      return;
    } catch (const hip_error& error) {
      if (error.code() != hipErrorInvalidValue) throw;
      refused = error;
    }
  }
  const std::size_t part = range.part_start(offset);
  const std::size_t part_bytes = offset - part + range.longest_at(offset);
  if (has_retired) finish_retired(range, part, part_bytes);

  mapped_sizes sizes;
  sizes.add(offset, bytes);
  const auto add_all = [&](const backing_map& from, std::size_t end) {
    for (const auto& [where, held] : from)
      if (!held.map.empty() && where != offset && where >= part && where < part + part_bytes &&
          where < end)
        sizes.add(where, held.bytes());
  };
  add_all(backings, there.backed_end);
  if (there.made != nullptr) add_all(*there.made, range.bytes());
  if (is_own) {
    add_all(left_behind, range.bytes());
    add_all(prepared, range.bytes());
  }
  range.refused().for_each([&](const void* address, std::size_t held) {
    const std::size_t where = static_cast<std::size_t>(static_cast<const char*>(address) - at(0));
    if (where >= part && where < part + part_bytes) sizes.add(where, held);
  });
  const bool is_alone = sizes.bytes() == bytes;
  if (sizes.has_no_hole() && !(refused && is_alone))
    return change(at(sizes.start()), sizes.bytes());
  // Without those that were retired the same call may pass.
  if (refused ? retired_so_far() != seen : sizes.has_one_size()) return change(at(offset), bytes);
  if (refused) throw hip_error{*refused};
  throw unsupported{"region: device " + std::to_string(device.ordinal()) +
                    " cannot be granted the " + format_bytes(bytes) + " at offset " +
                    std::to_string(offset) + " beside a hole and chunks of other sizes (" +
                    known.reason(trait::tail_access) +
                    "); leave no hole between what is committed, or commit in steps of one size"};
}

void mapped_region::set_rights(std::size_t offset, std::size_t bytes, const access_map& chosen,
                               device_ref changed) const {
  // All rights in one call, which names the owner last: see set_rights.
  std::optional<device_ref> revoked;
  if (chosen.get(changed) == access_right::none) revoked = changed;
  change_access(mapped_here(), offset, bytes, [&](void* start, std::size_t length) {
    detail::set_rights(start, length, chosen, device, revoked);
  });
}

mapping mapped_region::map_with_rights(const mapped_there& there, std::size_t offset,
                                       const physical_chunk& chunk) const {
  const map_answer answer =
      known.needs(quirk::verify_maps) ? map_answer::verified : map_answer::believed;
  mapping result = there.range.map(offset, chunk, answer);
  try {
    change_access(there, offset, result.bytes(),
                  [this](void* start, std::size_t length) { rights.apply(start, length); });
  } catch (...) {
    there.range.refused().unmap_or_keep(result, chunk.get());
    throw;
  }
  return result;
}

mapping mapped_region::map_here(std::size_t offset, const physical_chunk& chunk) {
  try {
    return map_with_rights(mapped_here(), offset, chunk);
  } catch (...) {
    holds_memory = true;
    throw;
  }
}

moment mapped_region::visible_if_mapped_now() const {
  if (!known.needs(quirk::wait_until_visible)) return {};
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(known.visibility_delay());
}

void mapped_region::await_visible(std::size_t offset, std::size_t bytes) const noexcept {
  moment last{};
  auto at = backings.upper_bound(offset);
  if (at != backings.begin()) --at;
  for (; at != backings.end() && at->first < offset + bytes; ++at)
    last = std::max(last, at->second.visible);
  wait_until(last);
}

}  // namespace hipvmm::detail
