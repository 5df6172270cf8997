// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/region/sleep/suspend_options.hpp>

namespace hipvmm::detail {

/// The action of suspend() for each byte: that of its range, or `rest`.
class sleep_plan {
 public:
  /// Throws: std::invalid_argument for a range that is null, empty, too long, or overlaps another.
  sleep_plan(keep rest, std::vector<suspend_range> ranges, bool waits = true);
  /// For save_checkpoint(): nothing sleeps.
  [[nodiscard]] static sleep_plan to_read() {
    sleep_plan result{keep::mapped, {}};
    result.only_reads_ = true;
    return result;
  }

  [[nodiscard]] const std::vector<suspend_range>& ranges() const noexcept { return ranges_; }
  /// False in evict(): a region with retired chunks then refuses to sleep, a pool keeps them.
  [[nodiscard]] bool waits() const noexcept { return waits_; }
  [[nodiscard]] bool only_reads() const noexcept { return only_reads_; }
  [[nodiscard]] const char* function() const noexcept {
    return only_reads_ ? "save_checkpoint" : "suspend";
  }
  [[nodiscard]] bool may_copy() const noexcept;
  [[nodiscard]] bool restores_nothing() const noexcept;
  [[nodiscard]] bool is_all(keep what, const void* address, std::size_t bytes) const;
  /// Whether any range has some of these bytes.
  [[nodiscard]] bool names(const void* address, std::size_t bytes) const;
  /// Calls piece(address, bytes, what) for each run with one action, by address.
  template <class Piece>
  void cut(const void* address, std::size_t bytes, Piece piece) const {
    auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = at + bytes;
    for (auto next = first_behind(at); at < end;) {
      const bool is_inside = next != ranges_.end() && start_of(*next) <= at;
      std::uintptr_t until = end;
      if (next != ranges_.end()) until = std::min(end, is_inside ? end_of(*next) : start_of(*next));
      piece(reinterpret_cast<void*>(at), until - at, is_inside ? next->what : rest_);
      if (is_inside) ++next;
      at = until;
    }
  }

 private:
  [[nodiscard]] static std::uintptr_t start_of(const suspend_range& range) noexcept {
    return reinterpret_cast<std::uintptr_t>(range.address);
  }
  [[nodiscard]] static std::uintptr_t end_of(const suspend_range& range) noexcept {
    return start_of(range) + range.bytes;
  }
  [[nodiscard]] std::vector<suspend_range>::const_iterator first_behind(std::uintptr_t at) const;

  keep rest_;
  bool waits_;
  bool only_reads_ = false;
  std::vector<suspend_range> ranges_;  // by address
};

}  // namespace hipvmm::detail
