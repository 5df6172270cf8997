// SPDX-License-Identifier: MIT
#include "region/mapped_region.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/hip_compat.hpp"
#include "region/retirement.hpp"
#include "runtime/device.hpp"

namespace hipvmm::detail {
namespace {

/// Reserves `wanted` bytes, or halves of it down to one granule.
address_reservation reserve_most(std::size_t wanted, std::size_t granularity) {
  for (std::size_t bytes = wanted;; bytes = align_up(bytes / 2, granularity)) {
    try {
      return make_with_reclaim([&] { return address_reservation{bytes}; });
    } catch (const out_of_memory&) {
      if (bytes <= granularity) throw;
    }
  }
}

/// The first of `backings` that lies partly in [offset, offset + bytes), or the end.
backing_map::const_iterator first_within(const backing_map& backings, std::size_t offset,
                                         std::size_t bytes) {
  auto at = backings.upper_bound(offset);
  if (at != backings.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.bytes() > offset) at = before;
  }
  return bytes != 0 && at != backings.end() && at->first < offset + bytes ? at : backings.end();
}

}  // namespace

mapped_region::mapped_region(device_ref owner, std::size_t max_bytes, const region_options& chosen,
                             const capability& found)
    : device{owner},
      granularity{granularity_of(owner).minimum},
      rights{owner},
      options{chosen},
      known{found},
      renews{known.needs(quirk::re_reserve) && chosen.when_empty == empty_policy::re_reserves},
      addresses{std::make_shared<address_range>(
          reserve_most(align_up(max_bytes, granularity), granularity))} {}

mapped_region::~mapped_region() {
  preparation.cancel_or_wait();
  merge(prepared);
  backings.merge(left_behind);
  const bool was_used = holds_memory || !backings.empty();
  if (addresses) recycle_all(backings, *addresses, cache());
  if (addresses && was_used && !await_records()) addresses->note_no_wait();
}

// In clr up to 6.4 a command that used addresses holds their record. The free of addresses waits
// for HIP's thread that drops finished commands, see address_reservation.cpp; here the devices are
// waited for first, so that the commands are finished and handed to that thread.
bool mapped_region::frees_late_records() noexcept {
  static const bool late = [] {
    bool found = true;
    report_exceptions([&] { found = hip_compat::forgets_addresses_late(runtime_version()); });
    return found;
  }();
  return late;
}

bool mapped_region::await_records() const noexcept {
  return !frees_late_records() || outlast_refusals(rights);
}

backing_map mapped_region::make_missing(const address_range& range, std::size_t offset,
                                        std::size_t bytes) const {
  backing_map made;
  try {
    add_missing(made, range, offset, bytes);
  } catch (...) {
    release_all(made, range);
    throw;
  }
  return made;
}

void mapped_region::add_missing(backing_map& made, const address_range& range, std::size_t offset,
                                std::size_t bytes) const {
  const std::size_t end = offset + bytes;
  auto next = backings.upper_bound(offset);
  if (next != backings.begin()) {
    const auto previous = std::prev(next);
    offset = std::max(offset, previous->first + previous->second.bytes());
  }
  while (offset < end) {
    const std::size_t gap_end = next == backings.end() ? end : std::min(end, next->first);
    while (offset < gap_end) {
      const std::size_t size = std::min(gap_end - offset, range.longest_at(offset));
      // Chunks that are still to be released hold on to the region's addresses.
      if (addresses.use_count() > 1) finish_retired(range, offset, size);
      physical_chunk chunk =
          make_with_reclaim([&] { return cache().acquire(device, size, options.shareable); });
      backing& one = made.try_emplace(offset).first->second;
      one.chunk = std::move(chunk);
      one.map = map_with_rights({range, range.bytes(), &made}, offset, one.chunk);
      one.visible = visible_if_mapped_now();
      offset += size;
    }
    if (next != backings.end()) {
      offset = next->first + next->second.bytes();
      ++next;
    }
  }
}

backing_map mapped_region::make_missing_or_explain(const address_range& range, std::size_t offset,
                                                   std::size_t bytes) const {
  try {
    return make_missing(range, offset, bytes);
  } catch (const out_of_memory& error) {
    const bool device_is_full = error.resource() == exhausted::device_memory;
    throw out_of_memory{
        error, "the region holds " + format_bytes(committed) + " in " +
                   std::to_string(backings.size()) + (backings.size() == 1 ? " chunk" : " chunks") +
                   ", was asked to hold " + format_bytes(bytes) + " from offset " +
                   std::to_string(offset) + ", and stays as it was" +
                   (device_is_full ? ": free memory of the device, or ask for less" : "")};
  }
}

void mapped_region::merge(backing_map& made) noexcept {
  for (auto& entry : made) {
    committed += entry.second.bytes();
    entry.second.serial = next_serial();
  }
  backings.merge(made);
}

bool mapped_region::is_backed_within(std::size_t offset, std::size_t bytes) const noexcept {
  return first_within(backings, offset, bytes) != backings.end();
}

void mapped_region::require_none_left_behind(const char* function, std::size_t offset,
                                             std::size_t bytes) const {
  const auto at = first_within(left_behind, offset, bytes);
  if (at != left_behind.end())
    throw std::invalid_argument{std::string{"region::"} + function + ": a chunk that moved is " +
                                "still mapped at offset " + std::to_string(at->first) +
                                " as well: end_move() there first"};
}

void mapped_region::restore(backing_map::iterator entry) noexcept {
  report_exceptions([&] {
    entry->second.map = map_with_rights(mapped_here(), entry->first, entry->second.chunk);
    wait_until(visible_if_mapped_now());
  });
  if (entry->second.map.empty()) {
    committed -= entry->second.bytes();
    addresses->refused().keep_chunk(entry->second.chunk);
    backings.erase(entry);
  }
}

void mapped_region::require_within(const char* function, std::size_t offset,
                                   std::size_t bytes) const {
  if (offset > max_bytes() || bytes > max_bytes() - offset)
    throw std::out_of_range{std::string{"region::"} + function + ": " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) +
                            " exceed the region of " + std::to_string(max_bytes()) + " bytes"};
}

}  // namespace hipvmm::detail
