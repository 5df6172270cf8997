// SPDX-License-Identifier: MIT
// Rows that show the same memory.
#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "container/row_memory.hpp"
#include "core/check.hpp"
#include "region/chunks/region_chunks.hpp"

namespace hipvmm::detail {
namespace {

access_list read_only(const access_map& rights) {
  std::vector<access_desc> entries = rights.entries();
  for (access_desc& each : entries) each.right = access_right::read;
  return access_list{std::move(entries)};
}

}  // namespace

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
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [this](std::size_t row) { return is_shared(rows_[row]); }));
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
