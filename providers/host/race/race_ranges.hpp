// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace hipvmm::host_provider {

/// Values by ranges [start, end), which never overlap. Not thread-safe.
template <class Value>
class race_ranges {
 public:
  using address = std::uintptr_t;

  /// Calls `see(start, end, value)` for each piece that overlaps the range, cut to the range.
  template <class See>
  void visit(address start, address end, See&& see) const {
    for (auto at = first_over(start); at != pieces_.end() && at->first < end; ++at) {
      see(std::max(start, at->first), std::min(end, at->second.end), at->second.value);
    }
  }

  /// Calls `each(start, end, value)` for each piece of the range; pieces that reach beyond it are
  /// cut in two first.
  template <class Change>
  void change(address start, address end, Change&& each) {
    cut(start);
    cut(end);
    for (auto at = pieces_.lower_bound(start); at != pieces_.end() && at->first < end; ++at) {
      each(at->first, at->second.end, at->second.value);
    }
  }

  /// The same, but bytes without a value get a fresh one first.
  template <class Change>
  void change_all(address start, address end, Change&& each) {
    cut(start);
    cut(end);
    address done = start;
    for (auto at = pieces_.lower_bound(start); done < end; ++at) {
      const address next = at == pieces_.end() ? end : std::min(end, at->first);
      if (done < next) at = pieces_.emplace_hint(at, done, piece{next, Value{}});
      each(at->first, at->second.end, at->second.value);
      done = at->second.end;
    }
  }

  void put(address start, address end, Value value) {
    erase(start, end);
    if (start < end) pieces_.emplace(start, piece{end, std::move(value)});
  }

  void erase(address start, address end) {
    cut(start);
    cut(end);
    pieces_.erase(pieces_.lower_bound(start), pieces_.lower_bound(end));
  }

  /// Erases the values for which `is_useless(value)`, which may also change them.
  template <class IsUseless>
  void erase_if(IsUseless&& is_useless) {
    for (auto at = pieces_.begin(); at != pieces_.end();) {
      at = is_useless(at->second.value) ? pieces_.erase(at) : std::next(at);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }

 private:
  struct piece {
    address end;
    Value value;
  };
  using range_map = std::map<address, piece>;

  [[nodiscard]] typename range_map::const_iterator first_over(address at) const {
    const auto after = pieces_.upper_bound(at);
    if (after == pieces_.begin()) return after;
    const auto found = std::prev(after);
    return found->second.end > at ? found : after;
  }

  void cut(address at) {
    const auto after = pieces_.lower_bound(at);
    if (after == pieces_.begin()) return;
    const auto found = std::prev(after);
    if (found->second.end <= at) return;
    pieces_.emplace_hint(after, at, piece{found->second.end, found->second.value});
    found->second.end = at;
  }

  range_map pieces_;
};

}  // namespace hipvmm::host_provider
