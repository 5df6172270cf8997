// SPDX-License-Identifier: MIT
#include "vmm/region_state.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/device_identity.hpp"
#include "core/device_wait.hpp"
#include "core/hip_compat.hpp"
#include "vmm/retirement.hpp"

namespace hipvmm {
namespace {

/// Reserves `wanted` bytes, or halves of it down to one granule.
address_reservation reserve_most(std::size_t wanted, std::size_t granularity) {
  for (std::size_t bytes = wanted;; bytes = align_up(bytes / 2, granularity)) {
    try {
      return detail::make_with_reclaim([&] { return address_reservation{bytes}; });
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

void give_back(backing_map& backings, chunk_cache& cache) noexcept {
  for (auto& entry : backings) detail::report_exceptions([&] { entry.second.map.unmap(); });
  // A chunk that HIP will not unmap must not be used again; ~mapping tries once more.
  for (auto& entry : backings)
    if (entry.second.map.empty()) cache.recycle(std::move(entry.second.chunk));
  backings.clear();
}

region::mapped::mapped(device_ref owner, std::size_t max_bytes, const region_options& chosen,
                       const capability& found)
    : state{owner, granularity_of(owner).minimum},
      options{chosen},
      known{found},
      renews{known.needs(quirk::renew_addresses) && chosen.when_empty == emptied::renews_addresses},
      addresses{std::make_shared<address_range>(
          reserve_most(align_up(max_bytes, granularity), granularity))} {}

region::mapped::~mapped() {
  preparation.settle();
  merge(prepared);
  backings.merge(left_behind);
  const bool was_used = holds_memory || !backings.empty();
  give_back(backings, cache());
  if (addresses && was_used) await_records();
}

// In clr up to 6.4 a command that used addresses holds their record. The free of addresses waits
// for HIP's thread that drops finished commands, see address_reservation.cpp; here the devices are
// waited for first, so that the commands are finished and handed to that thread.
bool region::mapped::frees_late_records() noexcept {
  static const bool late = [] {
    bool found = true;
    detail::report_exceptions(
        [&] { found = hip_compat::forgets_addresses_late(detail::runtime_version()); });
    return found;
  }();
  return late;
}

void region::mapped::await_records() const noexcept {
  if (!frees_late_records()) return;
  static_cast<void>(detail::outlast_captures([this] { return detail::wait_for(rights); }));
}

backing_map region::mapped::make_missing(const address_range& range, std::size_t offset,
                                         std::size_t bytes) const {
  backing_map made;
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
      // Chunks that are still to be given back hold on to the region's addresses.
      if (addresses.use_count() > 1) detail::finish_retired(range, offset, size);
      physical_chunk chunk = detail::make_with_reclaim(
          [&] { return cache().acquire(device, size, options.shareable); });
      mapping map = map_with_rights({range, range.bytes(), &made}, offset, chunk);
      made.try_emplace(offset, backing{std::move(chunk), std::move(map), visible_if_mapped_now()});
      offset += size;
    }
    if (next != backings.end()) {
      offset = next->first + next->second.bytes();
      ++next;
    }
  }
  return made;
}

backing_map region::mapped::make_missing_or_explain(const address_range& range, std::size_t offset,
                                                    std::size_t bytes) const {
  try {
    return make_missing(range, offset, bytes);
  } catch (const out_of_memory& error) {
    throw out_of_memory{error, "the region holds " + format_bytes(committed) + " in " +
                                   std::to_string(backings.size()) + " chunks, was asked to hold " +
                                   format_bytes(bytes) + " from offset " + std::to_string(offset) +
                                   ", and stays as it was"};
  }
}

void region::mapped::merge(backing_map& made) noexcept {
  for (const auto& entry : made) committed += entry.second.bytes();
  backings.merge(made);
}

bool region::mapped::is_backed_within(std::size_t offset, std::size_t bytes) const noexcept {
  return first_within(backings, offset, bytes) != backings.end();
}

void region::mapped::require_none_left_behind(const char* function, std::size_t offset,
                                              std::size_t bytes) const {
  const auto at = first_within(left_behind, offset, bytes);
  if (at != left_behind.end())
    throw std::invalid_argument{std::string{"region::"} + function + ": a chunk that moved is " +
                                "still mapped at offset " + std::to_string(at->first) +
                                " as well: end_move() there first"};
}

void region::mapped::restore(backing_map::iterator entry) noexcept {
  detail::report_exceptions([&] {
    entry->second.map = map_with_rights(mapped_here(), entry->first, entry->second.chunk);
    detail::wait_until(visible_if_mapped_now());
  });
  if (entry->second.map.empty()) {
    committed -= entry->second.bytes();
    backings.erase(entry);
  }
}

bool region::mapped::retire_behind(std::size_t end, stream_ref stream) {
  const auto first = backings.lower_bound(end);
  if (first == backings.end()) return true;
  detail::device_list devices = detail::devices_of(rights);
  std::optional<event> mark = detail::mark_in(stream, devices);
  if (!mark) return false;
  std::list<detail::retired_chunks> one;
  backing_map& behind =
      one.emplace_back(addresses, cache(), std::move(mark), std::move(devices)).backings;
  std::size_t bytes = 0;
  for (auto at = first; at != backings.end();) {
    bytes += at->second.bytes();
    behind.insert(behind.end(), backings.extract(at++));
  }
  if (!detail::retire(one)) {
    backings.merge(behind);
    return false;
  }
  committed -= bytes;
  holds_memory = true;
  return true;
}

bool region::mapped::retire_all() noexcept {
  if (backings.empty() && !(holds_memory && frees_late_records())) return true;
  preparation.settle();
  merge(prepared);
  backings.merge(left_behind);
  bool retired = false;
  // Without memory for this the caller waits, and frees some.
  try {
    std::list<detail::retired_chunks> one;
    detail::retired_chunks& item =
        one.emplace_back(addresses, cache(), std::nullopt, detail::devices_of(rights));
    item.owner = device;
    backing_map& all = item.backings;
    all.swap(backings);
    retired = detail::retire(one);
    if (retired)
      addresses.reset();
    else
      all.swap(backings);
  } catch (const std::bad_alloc&) {
  }
  return retired;
}

void region::mapped::replace_straddler(std::size_t end, stream_ref stream) {
  auto at = backings.lower_bound(end);
  if (at == backings.begin()) return;
  --at;
  auto& [offset, old] = *at;
  if (offset + old.bytes() <= end || offset + old.bytes() - end <= end / 8) return;
  // Without a right to read, no stream of the owner can carry the bytes over.
  if (rights.get(device) != access_right::read_write) return;

  const std::size_t kept = end - offset;
  backing fresh;
  try {
    fresh.chunk = cache().acquire(device, kept, options.shareable);
    address_range elsewhere{address_reservation{kept}};
    const mapping temporary = map_with_rights({elsewhere, 0}, 0, fresh.chunk);
    detail::wait_until(visible_if_mapped_now());
    copy_async(stream, temporary.get(), old.map.get(), kept);
    try {
      stream.synchronize();
    } catch (...) {
      // The copy may be under way, and must not outlive the mapping it writes to.
      detail::report_exceptions([&] { detail::wait_for_device(device); });
      throw;
    }
    await_records();
  } catch (const out_of_memory&) {
    return;
  }
  old.map.unmap();
  holds_memory = true;
  try {
    fresh.map = map_with_rights(mapped_here(), offset, fresh.chunk);
    detail::wait_until(visible_if_mapped_now());
  } catch (...) {
    restore(at);
    throw;
  }
  committed -= old.bytes() - kept;
  std::swap(old, fresh);
  cache().recycle(std::move(fresh.chunk));
}

}  // namespace hipvmm
