// SPDX-License-Identifier: MIT
#include "race/race_clock.hpp"

#include <algorithm>

namespace hipvmm::host_provider {
namespace {

constexpr auto is_of_earlier_stream = [](const auto& entry, stream_number stream) noexcept {
  return entry.stream < stream;
};

}  // namespace

void race_clock::include(stream_number stream, std::uint64_t count) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), stream, is_of_earlier_stream);
  if (at != entries_.end() && at->stream == stream) {
    at->count = std::max(at->count, count);
  } else if (count != 0) {
    entries_.insert(at, {stream, count});
  }
}

void race_clock::include(const race_clock& other) {
  for (const entry& each : other.entries_) include(each.stream, each.count);
}

bool race_clock::covers(stream_number stream, std::uint64_t count) const noexcept {
  if (count == 0) return true;
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), stream, is_of_earlier_stream);
  return at != entries_.end() && at->stream == stream && at->count >= count;
}

}  // namespace hipvmm::host_provider
