// SPDX-License-Identifier: MIT
#include "container/row_memory.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "region/chunks/region_chunks.hpp"
#include "vmm/cached_chunks.hpp"
#include "vmm/chunk_cache.hpp"

namespace hipvmm::detail {
namespace {

// hipMalloc's alignment, which kernels may assume.
constexpr std::size_t packed_alignment = 256;

std::size_t block_of(device_ref device, const slot_arena_options& options) {
  const allocation_granularity unit = granularity_of(device);
  if (options.block_bytes == 0) return align_up(std::max(2 * MiB, unit.recommended), unit.minimum);
  if (options.block_bytes % unit.minimum != 0)
    throw std::invalid_argument{
        "slot_arena_options::block_bytes: " + std::to_string(options.block_bytes) +
        " is no multiple of the granularity of device " + std::to_string(device.ordinal()) + ", " +
        std::to_string(unit.minimum) + " bytes"};
  return options.block_bytes;
}

void require_some(const char* option, std::size_t value) {
  if (value == 0)
    throw std::invalid_argument{std::string{"slot_arena_options::"} + option +
                                ": 0; it must be at least 1"};
}

region reserve(device_ref device, const slot_geometry& geometry, const slot_arena_options& options,
               chunk_cache* cache) {
  const region_options chosen{.cache = cache,
                              .when_empty = empty_policy::keeps_addresses,
                              .access = options.access,
                              .registrar = options.registrar};
  const std::size_t wanted = bytes_for(geometry.planes, geometry.plane);
  region result =
      options.tag ? detail::region_aside(device, wanted, chosen) : region{device, wanted, chosen};
  if (result.max_bytes() < wanted)
    throw out_of_memory{
        exhausted::addresses, device.ordinal(), wanted, result.max_bytes(),
        "a slot_arena needs its addresses in one piece: " + std::to_string(geometry.slots) +
            " slots of " + format_bytes(geometry.stride) + " in " +
            std::to_string(geometry.planes) + " planes; fewer slots, or shorter ones, need fewer"};
  return result;
}

access_list read_only(const access_map& rights) {
  std::vector<access_desc> entries = rights.entries();
  for (access_desc& each : entries) each.right = access_right::read;
  return access_list{std::move(entries)};
}

}  // namespace

slot_geometry::slot_geometry(device_ref device, const slot_arena_options& options)
    : slots{options.slots},
      planes{options.planes},
      most{options.bytes_per_slot},
      block{0},
      stride{0},
      plane{0} {
  require_some("slots", slots);
  require_some("planes", planes);
  require_some("bytes_per_slot", most);
  block = block_of(device, options);
  const bool packs = options.layout == slot_layout::packed;
  try {
    stride = align_up(most, packs ? std::min(packed_alignment, block) : block);
    plane = align_up(bytes_for(slots, stride), block);
    static_cast<void>(bytes_for(planes, plane));
  } catch (const std::length_error&) {
    throw std::length_error{"slot_arena_options: bytes_per_slot " + std::to_string(most) +
                            ", times slots " + std::to_string(slots) + " and planes " +
                            std::to_string(planes) + ", exceeds the address space in blocks of " +
                            format_bytes(block) + "; set a smaller one of them"};
  }
  if (slots > std::numeric_limits<std::uint32_t>::max() ||
      planes > std::numeric_limits<std::uint32_t>::max())
    throw std::length_error{"slot_arena_options: " + std::to_string(slots) + " slots and " +
                            std::to_string(planes) + " planes: set less than 2^32 of each"};
}

row_memory::row_memory(device_ref device, const slot_geometry& geometry,
                       const slot_arena_options& options)
    : geometry_{geometry},
      own_cache_{options.cache == nullptr
                     ? std::make_unique<chunk_cache>(std::numeric_limits<std::size_t>::max())
                     : nullptr},
      cache_{own_cache_ ? *own_cache_ : *options.cache},
      strategy_{device},
      region_{reserve(device, geometry, options, &cache_)},
      rows_(geometry.plane / geometry.block) {}

template <typename Change>
void row_memory::change(std::size_t row, Change how) {
  row_state& state = rows_[row];
  unclaimed_rows_ -= counts_as_unclaimed(state);
  how(state);
  unclaimed_rows_ += counts_as_unclaimed(state);
}

void row_memory::back_next(std::size_t row) {
  region_.commit(offset(row, rows_[row].backed_planes), geometry_.block);
  change(row, [](row_state& state) { ++state.backed_planes; });
}

void row_memory::back_run(std::size_t row, std::size_t count) {
  for (std::size_t plane = 0; plane < geometry_.planes; ++plane) {
    region_.commit(offset(row, plane), count * geometry_.block, geometry_.block);
    for (std::size_t each = row; each < row + count; ++each)
      change(each, [](row_state& state) { ++state.backed_planes; });
  }
}

void row_memory::decommit(std::size_t row, std::size_t count) {
  for (std::size_t plane = geometry_.planes; plane-- != 0;) {
    bool is_backed = false;
    for (std::size_t each = row; each < row + count; ++each)
      is_backed = is_backed || rows_[each].backed_planes > plane;
    if (!is_backed) continue;
    region_.decommit(offset(row, plane), count * geometry_.block);
    for (std::size_t each = row; each < row + count; ++each) {
      if (rows_[each].backed_planes <= plane) continue;
      change(each, [](row_state& state) { --state.backed_planes; });
      note_hidden(rows_[each], plane);
    }
  }
  for (std::size_t each = row; each < row + count; ++each) leave_group(rows_[each]);
}

void row_memory::decommit_unclaimed() {
  while (unclaimed_rows_ != 0) {
    const std::size_t first = find_unclaimed();
    std::size_t end = first + 1;
    while (end < rows_.size() && counts_as_unclaimed(rows_[end]) != 0) ++end;
    decommit(first, end - first);
  }
}

std::size_t row_memory::find_unclaimed() const noexcept {
  const auto at = std::ranges::find_if(
      rows_, [](const row_state& each) { return counts_as_unclaimed(each) != 0; });
  return static_cast<std::size_t>(at - rows_.begin());
}

void row_memory::claim(std::size_t row) noexcept {
  change(row, [](row_state& state) { ++state.claims; });
}

bool row_memory::unclaim(std::size_t row) noexcept {
  change(row, [](row_state& state) { --state.claims; });
  return rows_[row].claims == 0;
}

std::size_t row_memory::kept_bytes() const noexcept {
  return own_cache_ ? own_cache_->statistics().bytes : 0;
}

std::size_t row_memory::reusable_bytes(std::size_t most) const {
  return own_cache_ ? cache_registry::of(cache_, region_.device())
                          .bytes_to_take(geometry_.block, handle_type::none, most)
                    : 0;
}

void row_memory::return_pinned() noexcept {
  if (region_.committed_bytes() == 0) return_pinned_memory(region_);
}

std::size_t row_memory::cached_bytes() const { return cache_.statistics(region_.device()).bytes; }

std::size_t row_memory::usable_cached_bytes() const {
  if (own_cache_) return 0;
  if (strategy_.pins_memory)
    return cache_registry::of(cache_, region_.device())
        .bytes_to_take(geometry_.block, handle_type::none);
  return &cache_ == &chunk_cache::shared() ? 0 : cached_bytes();
}

bool row_memory::fits(const idle_request& wanted) const noexcept {
  return wanted.taker != nullptr && wanted.chunk_bytes == geometry_.block &&
         wanted.shareable == handle_type::none;
}

void row_memory::give_kept(const idle_request& wanted, given_memory& given) {
  if (is_taker(wanted)) return;
  while (fits(wanted) && given.all() < wanted.bytes) {
    physical_chunk chunk =
        cache_registry::of(cache_, region_.device()).take(wanted.chunk_bytes, wanted.shareable);
    if (chunk.empty()) break;
    given.moved += chunk.bytes();
    wanted.taker->recycle(std::move(chunk));
  }
  if (given.all() >= wanted.bytes) return;
  const std::size_t missing = wanted.bytes - given.all();
  const std::size_t kept = cached_bytes();
  given.released += cache_.trim(region_.device(), kept - std::min(kept, missing));
}

void row_memory::trim_kept(std::size_t bytes) noexcept {
  if (own_cache_) own_cache_->trim(bytes);
}

void row_memory::join_group(row_state& row, const std::shared_ptr<group>& shown_by) noexcept {
  row.shown_by = shown_by;
  ++grouped_;
}

void row_memory::leave_group(row_state& row) noexcept {
  row.is_read_only = false;
  if (!row.shown_by) return;
  for (std::size_t plane = 0; plane < row.backed_planes; ++plane) note_hidden(row, plane);
  row.shown_by.reset();
  --grouped_;
}

void row_memory::note_shown(row_state& row, std::size_t plane) noexcept {
  if ((*row.shown_by)[plane]++ != 0) ++aliases_;
}

void row_memory::note_hidden(row_state& row, std::size_t plane) noexcept {
  if (row.shown_by && --(*row.shown_by)[plane] != 0) --aliases_;
}

void row_memory::share(std::size_t from, std::size_t to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    row_state& source = rows_[from + i];
    if (!source.shown_by) join_group(source, std::make_shared<group>(geometry_.planes, 1));
  }
  decommit(to, count);
  const access_list rights = read_only(region_.rights());
  for (std::size_t i = 0; i < count; ++i) {
    join_group(rows_[to + i], rows_[from + i].shown_by);
    rows_[to + i].is_read_only = true;
  }
  try {
    for (std::size_t plane = 0; plane < geometry_.planes; ++plane) {
      std::map<std::size_t, physical_chunk> shown;
      for (std::size_t i = 0; i < count; ++i)
        shown.emplace(offset(to + i, plane), reference_chunk(region_, offset(from + i, plane)));
      adopt_chunks(region_, shown);
      for (std::size_t i = 0; i < count; ++i) {
        ++rows_[to + i].backed_planes;
        note_shown(rows_[to + i], plane);
      }
      region_.set_access(offset(to, plane), count * geometry_.block, rights);
    }
  } catch (...) {
    report_exceptions([&] { decommit(to, count); });
    throw;
  }
}

void row_memory::make_private(const std::vector<std::size_t>& rows, stream_ref stream) {
  std::vector<std::size_t> copied;
  for (const std::size_t row : rows) {
    if (!is_shared(rows_[row])) continue;
    for (std::size_t plane = 0; plane < geometry_.planes; ++plane)
      copied.push_back(offset(row, plane));
  }
  if (!copied.empty()) copy_chunks(region_, copied, stream);
  for (const std::size_t row : rows) {
    const bool was_read_only = rows_[row].is_read_only;
    leave_group(rows_[row]);
    rows_[row].is_read_only = was_read_only;
  }
  const access_list rights = region_.rights().list();
  for (auto next = rows.begin(); next != rows.end();) {
    const std::size_t first = *next++;
    if (!rows_[first].is_read_only) continue;
    std::size_t end = first + 1;
    for (; next != rows.end() && *next == end && rows_[end].is_read_only; ++next) ++end;
    for (std::size_t plane = 0; plane < geometry_.planes; ++plane)
      region_.set_access(offset(first, plane), (end - first) * geometry_.block, rights);
    for (std::size_t row = first; row < end; ++row) rows_[row].is_read_only = false;
  }
}

std::size_t row_memory::count_shared(const std::vector<std::size_t>& rows) const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [this](std::size_t row) { return is_shared(rows_[row]); }));
}

std::size_t row_memory::count_aliases(const std::vector<bool>& counts) const {
  std::unordered_set<const group*> seen;
  std::size_t result = 0;
  for (std::size_t row = 0; grouped_ != 0 && row < rows_.size(); ++row)
    if (counts[row] && rows_[row].shown_by && !seen.insert(rows_[row].shown_by.get()).second)
      ++result;
  return result;
}

}  // namespace hipvmm::detail
