// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/region.hpp>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include "core/check.hpp"
#include "vmm/address_range.hpp"

namespace hipvmm {
namespace {

/// A chunk and where it is mapped. The members' order unmaps before it releases.
struct backing {
  physical_chunk chunk;
  mapping map;

  [[nodiscard]] std::size_t bytes() const noexcept { return chunk.bytes(); }
};

/// By offset in the region. Adjacent backings may touch, never overlap.
using backing_map = std::map<std::size_t, backing>;

/// Reserves `wanted` bytes, or halves of it down to one granule.
address_reservation reserve_most(std::size_t wanted, std::size_t granularity) {
  for (std::size_t bytes = wanted;; bytes = align_up(bytes / 2, granularity)) {
    try {
      return address_reservation{bytes};
    } catch (const out_of_memory&) {
      if (bytes <= granularity) throw;
    }
  }
}

}  // namespace

struct region::state {
  state(device_ref owner, std::size_t max_bytes, const region_options& chosen)
      : device{owner},
        options{chosen},
        granularity{granularity_of(owner).minimum},
        addresses{reserve_most(align_up(max_bytes, granularity), granularity)},
        rights{owner} {}
  ~state() {
    for (auto& entry : backings) {
      // A chunk that HIP will not unmap must not be used again; ~mapping tries once more.
      detail::report_exceptions([&] {
        entry.second.map.unmap();
        cache().recycle(std::move(entry.second.chunk));
      });
    }
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  [[nodiscard]] chunk_cache& cache() const noexcept {
    return options.cache != nullptr ? *options.cache : chunk_cache::shared();
  }

  void require_units(const char* function, std::size_t offset, std::size_t bytes) const {
    if (offset % granularity != 0 || bytes % granularity != 0)
      throw std::invalid_argument{std::string{"region::"} + function + ": offset " +
                                  std::to_string(offset) + " and size " + std::to_string(bytes) +
                                  " must be multiples of the granularity, " +
                                  std::to_string(granularity) + " bytes"};
    require_within(function, offset, bytes);
  }
  void require_within(const char* function, std::size_t offset, std::size_t bytes) const {
    if (offset > addresses.bytes() || bytes > addresses.bytes() - offset)
      throw std::out_of_range{std::string{"region::"} + function + ": " + std::to_string(bytes) +
                              " bytes at offset " + std::to_string(offset) +
                              " exceed the region of " + std::to_string(addresses.bytes()) +
                              " bytes"};
  }

  /// Where the neighbouring mappings begin that end at `offset` within one reservation. All
  /// backings before `offset` and those of `made` are mapped in `range`.
  [[nodiscard]] std::size_t run_start(const address_range& range, std::size_t offset,
                                      const backing_map& made) const {
    const std::size_t part = range.part_start(offset);
    const auto before = [](const backing_map& map, std::size_t end) {
      auto at = map.lower_bound(end);
      if (at == map.begin()) return end;
      --at;
      return at->first + at->second.bytes() == end ? at->first : end;
    };
    while (offset > part) {
      const std::size_t start = std::min(before(backings, offset), before(made, offset));
      if (start == offset) break;
      offset = start;
    }
    return offset;
  }

  /// Makes `change(address, bytes)`, a call of hipMemSetAccess, for the mapping at `offset`.
  /// ROCm 7.0 to 7.2 may refuse a mapping behind another and take all of them from the first on
  /// (ROCm/rocm-systems#6977); these have the same rights, so naming them again changes nothing.
  /// May go when no supported release does so.
  template <class Change>
  void change_access(const address_range& range, std::size_t offset, std::size_t bytes,
                     const backing_map& made, Change change) const {
    const auto at = [&range](std::size_t where) {
      return static_cast<char*>(range.base()) + where;
    };
    try {
      change(at(offset), bytes);
    } catch (const hip_error& error) {
      if (error.code() != hipErrorInvalidValue) throw;
      const std::size_t run = run_start(range, offset, made);
      if (run == offset) throw;
      change(at(run), offset + bytes - run);
    }
  }

  [[nodiscard]] mapping map_with_rights(const address_range& range, std::size_t offset,
                                        const physical_chunk& chunk,
                                        const backing_map& made = {}) const {
    mapping result = range.map(offset, chunk);
    change_access(range, offset, result.bytes(), made,
                  [this](void* start, std::size_t bytes) { rights.apply(start, bytes); });
    return result;
  }

  /// New backings in `range` for all of [offset, offset + bytes) that has none, ready to be merged.
  [[nodiscard]] backing_map make_missing(const address_range& range, std::size_t offset,
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
        physical_chunk chunk = cache().acquire(device, size, options.shareable);
        mapping map = map_with_rights(range, offset, chunk, made);
        made.try_emplace(offset, backing{std::move(chunk), std::move(map)});
        offset += size;
      }
      if (next != backings.end()) {
        offset = next->first + next->second.bytes();
        ++next;
      }
    }
    return made;
  }

  /// make_missing, whose out_of_memory tells what the region holds.
  [[nodiscard]] backing_map make_missing_or_explain(const address_range& range, std::size_t offset,
                                                    std::size_t bytes) const {
    try {
      return make_missing(range, offset, bytes);
    } catch (const out_of_memory& error) {
      throw out_of_memory{
          error.resource(), error.device(), error.bytes_requested(), error.bytes_free(),
          "the region holds " + format_bytes(committed) + " in " + std::to_string(backings.size()) +
              " chunks, was asked to hold " + format_bytes(bytes) + " from offset " +
              std::to_string(offset) + ", and stays as it was"};
    }
  }

  void merge(backing_map& made) noexcept {
    for (const auto& entry : made) committed += entry.second.bytes();
    backings.merge(made);
  }

  /// Maps a chunk again where it was; what HIP refuses is reported, and the bytes are then lost.
  void restore(backing_map::iterator entry) noexcept {
    detail::report_exceptions(
        [&] { entry->second.map = map_with_rights(addresses, entry->first, entry->second.chunk); });
    if (entry->second.map.empty()) {
      committed -= entry->second.bytes();
      backings.erase(entry);
    }
  }

  void replace_straddler(std::size_t end, stream_ref stream);

  device_ref device;
  region_options options;
  std::size_t granularity;
  // The order of these two unmaps everything before the addresses are freed.
  address_range addresses;
  backing_map backings;
  access_map rights;
  std::size_t committed = 0;
};

region::region(device_ref device, std::size_t max_bytes, region_options options) {
  require_device(device);
  if (max_bytes == 0)
    throw std::invalid_argument{"a region of 0 bytes: max_bytes must be at least 1"};
  state_ = std::make_unique<state>(device, max_bytes, options);
}

region::~region() = default;
region::region(region&& other) noexcept = default;
region& region::operator=(region&& other) noexcept = default;

region::state& region::live() const {
  if (!state_) throw std::invalid_argument{"the region is empty: it was moved from"};
  return *state_;
}

void region::commit(std::size_t offset, std::size_t bytes) {
  state& self = live();
  self.require_units("commit", offset, bytes);
  backing_map made = self.make_missing_or_explain(self.addresses, offset, bytes);
  self.merge(made);
}

std::size_t region::decommit(std::size_t offset, std::size_t bytes) {
  state& self = live();
  self.require_units("decommit", offset, bytes);
  const std::size_t end = offset + bytes;
  auto& backings = self.backings;
  const auto first = backings.lower_bound(offset);
  auto last = first;
  while (last != backings.end() && last->first + last->second.bytes() <= end) ++last;

  for (auto at = first; at != last; ++at) {
    try {
      // One unmap for each mapping: ROCm before 7.0 keeps a reservation busy after an unmap that
      // spans several (ROCm/ROCR-Runtime#285).
      at->second.map.unmap();
    } catch (...) {
      for (auto undone = first; undone != at;) self.restore(undone++);
      throw;
    }
  }
  std::size_t returned = 0;
  for (auto at = first; at != last; at = backings.erase(at)) {
    returned += at->second.bytes();
    self.cache().recycle(std::move(at->second.chunk));
  }
  self.committed -= returned;
  return returned;
}

void region::grant(device_ref device, access_right right) {
  state& self = live();
  access_map next = self.rights;
  next.set(device, right);
  const access_right before = self.rights.get(device);
  auto& backings = self.backings;
  const auto give = [&](const backing_map::value_type& entry, access_right given) {
    self.change_access(self.addresses, entry.first, entry.second.bytes(), {},
                       [&](void* start, std::size_t bytes) {
                         set_access(start, bytes, {device, given});
                       });
  };
  for (auto at = backings.begin(); at != backings.end(); ++at) {
    try {
      give(*at, right);
    } catch (...) {
      for (auto undone = backings.begin(); undone != at; ++undone)
        detail::report_exceptions([&] { give(*undone, before); });
      throw;
    }
  }
  self.rights = std::move(next);
}

access_right region::access(device_ref device) const noexcept {
  return state_ ? state_->rights.get(device) : access_right::none;
}

const access_map& region::rights() const { return live().rights; }

// The chunk that begins before `end` and reaches beyond makes place for one that ends there.
void region::state::replace_straddler(std::size_t end, stream_ref stream) {
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
    const mapping temporary = map_with_rights(elsewhere, 0, fresh.chunk);
    copy_async(stream, temporary.get(), old.map.get(), kept);
    try {
      stream.synchronize();
    } catch (...) {
      // The copy may be under way, and must not outlive the mapping it writes to.
      detail::report_exceptions([&] { device.synchronize(); });
      throw;
    }
  } catch (const out_of_memory&) {
    return;
  }
  old.map.unmap();
  try {
    fresh.map = map_with_rights(addresses, offset, fresh.chunk);
  } catch (...) {
    restore(at);
    throw;
  }
  committed -= old.bytes() - kept;
  std::swap(old, fresh);
  cache().recycle(std::move(fresh.chunk));
}

std::size_t region::trim(std::size_t bytes, stream_ref stream) {
  state& self = live();
  self.require_within("trim", bytes, 0);
  const std::size_t end = align_up(bytes, self.granularity);
  stream.synchronize();
  const std::size_t before = self.committed;
  decommit(end, max_bytes() - end);
  self.replace_straddler(end, stream);
  return before - self.committed;
}

bool region::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  state& self = live();
  const std::size_t present = self.addresses.bytes();
  const std::size_t wanted = align_up(max_bytes, self.granularity);
  const std::size_t least = align_up(commit_bytes, self.granularity);
  if (wanted < present || least > wanted)
    throw std::invalid_argument{"region::extend: cannot hold " + std::to_string(commit_bytes) +
                                " bytes in " + std::to_string(max_bytes) +
                                ", or go below the present " + std::to_string(present)};
  if (wanted == present) {
    commit(0, least);
    return false;
  }

  try {
    address_reservation behind{wanted - present, 0, self.addresses.end()};
    if (behind.get() == self.addresses.end()) {
      self.addresses.append(std::move(behind));
      try {
        commit(0, least);
      } catch (...) {
        self.addresses.drop_last();
        throw;
      }
      return false;
    }
  } catch (const out_of_memory& error) {
    if (error.resource() != exhausted::addresses) throw;
  }

  // The chunks are mapped twice for a moment, so that a failure leaves the old addresses whole.
  address_range larger{address_reservation{wanted}};
  boost::container::small_vector<mapping, 8> moved;
  moved.reserve(self.backings.size());
  for (const auto& [offset, held] : self.backings)
    moved.push_back(self.map_with_rights(larger, offset, held.chunk));
  backing_map made = self.make_missing_or_explain(larger, 0, least);
  for (const access_desc& entry : self.rights.entries()) entry.device.synchronize();

  auto next = moved.begin();
  for (auto& [offset, held] : self.backings) std::swap(held.map, *next++);
  std::swap(self.addresses, larger);
  self.merge(made);
  return true;
}

void* region::base() const noexcept { return state_ ? state_->addresses.base() : nullptr; }

std::size_t region::max_bytes() const noexcept { return state_ ? state_->addresses.bytes() : 0; }

std::size_t region::committed_bytes() const noexcept { return state_ ? state_->committed : 0; }

std::size_t region::committed_from(std::size_t offset) const noexcept {
  if (!state_) return 0;
  const auto& backings = state_->backings;
  auto at = backings.upper_bound(offset);
  if (at == backings.begin()) return 0;
  --at;
  const std::size_t start = offset;
  while (at != backings.end() && at->first <= offset) {
    offset = std::max(offset, at->first + at->second.bytes());
    ++at;
  }
  return offset - start;
}

std::size_t region::chunk_count() const noexcept { return state_ ? state_->backings.size() : 0; }

std::size_t region::granularity() const noexcept { return state_ ? state_->granularity : 0; }

device_ref region::device() const { return live().device; }

}  // namespace hipvmm
