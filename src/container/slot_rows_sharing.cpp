// SPDX-License-Identifier: MIT
// Rows that show the same memory.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include <hipvmm/vmm/access.hpp>
#include "container/slot_rows.hpp"
#include "core/check.hpp"
#include "region/shared_chunks.hpp"

namespace hipvmm::detail {
namespace {

access_list read_only(const access_map& rights) {
  std::vector<access_desc> entries = rights.entries();
  for (access_desc& each : entries) each.right = access_right::read;
  return access_list{std::move(entries)};
}

}  // namespace

void slot_rows::leave_group(row_state& row) noexcept {
  row.is_read_only = false;
  if (!row.group) return;
  if (is_shared(row)) --aliases_;
  row.group.reset();
  --grouped_;
}

void slot_rows::share(std::size_t from, std::size_t to) {
  row_state& source = rows_[from];
  row_state& target = rows_[to];
  if (!source.group) {
    source.group = std::make_shared<const int>();
    ++grouped_;
  }
  // Left there where HIP refused to unmap it.
  decommit(to);
  const access_list rights = read_only(region_.rights());
  try {
    for (std::size_t plane = 0; plane < geometry_.planes; ++plane) {
      region_.adopt(offset(to, plane), reference_chunk(region_, offset(from, plane)));
      ++target.backed_planes;
      region_.set_access(offset(to, plane), geometry_.block, rights);
    }
  } catch (...) {
    report_exceptions([&] { decommit(to); });
    throw;
  }
  target.group = source.group;
  target.is_read_only = true;
  ++grouped_;
  ++aliases_;
}

void slot_rows::make_private(const std::vector<std::size_t>& rows, stream_ref stream) {
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
  for (const std::size_t row : rows) {
    if (!rows_[row].is_read_only) continue;
    for (std::size_t plane = 0; plane < geometry_.planes; ++plane)
      region_.set_access(offset(row, plane), geometry_.block, rights);
    rows_[row].is_read_only = false;
  }
}

std::size_t slot_rows::count_shared(const std::vector<std::size_t>& rows) const noexcept {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [this](std::size_t row) { return is_shared(rows_[row]); }));
}

std::size_t slot_rows::count_aliases(const std::vector<bool>& counts) const {
  std::unordered_set<const int*> seen;
  std::size_t result = 0;
  for (std::size_t row = 0; grouped_ != 0 && row < rows_.size(); ++row)
    if (counts[row] && rows_[row].group && !seen.insert(rows_[row].group.get()).second) ++result;
  return result;
}

}  // namespace hipvmm::detail
