// SPDX-License-Identifier: MIT
#include "region/sleep/sleep_plan.hpp"

#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

sleep_plan::sleep_plan(keep rest, std::vector<suspend_range> ranges, bool waits)
    : rest_{rest}, waits_{waits}, ranges_{std::move(ranges)} {
  const auto text_of = [](const suspend_range& range) {
    return "the range of " + format_bytes(range.bytes) + " at " + address_text(range.address);
  };
  for (const suspend_range& each : ranges_) {
    if (each.address == nullptr || each.bytes == 0)
      throw std::invalid_argument{"suspend_options::ranges: " + text_of(each) +
                                  " names no memory: leave it out, or name its first byte and its "
                                  "bytes"};
    if (each.bytes > std::numeric_limits<std::uintptr_t>::max() - start_of(each))
      throw std::invalid_argument{"suspend_options::ranges: " + text_of(each) +
                                  " ends beyond all addresses"};
  }
  std::ranges::sort(ranges_, [](const suspend_range& a, const suspend_range& b) {
    return start_of(a) < start_of(b);
  });
  const auto overlap = std::ranges::adjacent_find(
      ranges_, [](const auto& a, const auto& b) { return end_of(a) > start_of(b); });
  if (overlap != ranges_.end())
    throw std::invalid_argument{"suspend: " + text_of(*overlap) + " overlaps " +
                                text_of(*std::next(overlap)) + ": name each byte once"};
}

bool sleep_plan::may_copy() const noexcept {
  // `mapped` may act as `contents`.
  return rest_ == keep::contents || rest_ == keep::mapped ||
         std::ranges::any_of(ranges_, [](const suspend_range& each) {
           return each.what == keep::contents || each.what == keep::mapped;
         });
}

bool sleep_plan::restores_nothing() const noexcept {
  return rest_ == keep::nothing && std::ranges::all_of(ranges_, [](const suspend_range& each) {
           return each.what == keep::nothing;
         });
}

bool sleep_plan::is_all(keep what, const void* address, std::size_t bytes) const {
  bool result = true;
  cut(address, bytes,
      [&](const void*, std::size_t, keep here) { result = result && here == what; });
  return result;
}

bool sleep_plan::names(const void* address, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto next = first_behind(at);
  return next != ranges_.end() && start_of(*next) < at + bytes;
}

std::vector<suspend_range>::const_iterator sleep_plan::first_behind(std::uintptr_t at) const {
  return std::ranges::partition_point(
      ranges_, [at](const suspend_range& each) { return end_of(each) <= at; });
}

}  // namespace hipvmm::detail
