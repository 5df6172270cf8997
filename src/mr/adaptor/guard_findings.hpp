// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/mr/adaptor/guard_options.hpp>
#include <hipvmm/runtime/event.hpp>
#include "core/call_stack.hpp"
#include "core/check.hpp"

namespace hipvmm::mr {

using call_addresses = std::vector<const void*>;

struct guarded_block {
  std::size_t bytes;
  std::size_t alignment;
  call_addresses allocated_by;
  bool is_guarded = true;  // false: allocated in a captured stream, with no canaries
};

/// A block that was freed and is not yet compared, or is in quarantine.
struct freed_block {
  unsigned char* pointer;
  guarded_block block;
  call_addresses freed_by;
  std::optional<event> copied{};      // empty: the copies are complete
  unsigned char* canaries = nullptr;  // copies of both; nullptr when they were compared
  bool is_kept = false;               // in quarantine
  std::uint64_t number = 0;
  bool is_damaged = false;
};

[[nodiscard]] inline std::string text_of(const freed_block& one) {
  return std::to_string(one.block.bytes) + " bytes at " + detail::address_text(one.pointer);
}
[[nodiscard]] inline std::string calls_text(const char* what, const call_addresses& calls) {
  if (calls.empty()) return {};
  return std::string{"\n"} + what + " by:\n" + detail::text_of_stack(calls);
}
[[nodiscard]] inline std::string calls_of(const freed_block& one) {
  return calls_text("allocated", one.block.allocated_by) + calls_text("freed", one.freed_by);
}

/// The damage that a guard_resource_adaptor has yet to report. Thread-safe.
class guard_findings {
  static auto is_other_than(unsigned char expected) {
    return [expected](unsigned char each) { return each != expected; };
  }

 public:
  /// Compares the `count` bytes before and behind the block; their copies follow each other.
  void compare_canaries(freed_block& one, const unsigned char* copies, std::size_t count) noexcept {
    constexpr unsigned char canary = guard_patterns::canary;
    const unsigned char* const middle = copies + count;
    // An underflow begins at the byte next to the block.
    const auto last = std::make_reverse_iterator(copies);
    const auto before =
        std::find_if(std::make_reverse_iterator(middle), last, is_other_than(canary));
    if (before != last)
      add_damage(one,
                 "was written before its start, nearest at offset -" +
                     std::to_string(middle - before.base() + 1),
                 *before, canary);
    const unsigned char* const behind = std::find_if(middle, middle + count, is_other_than(canary));
    if (behind != middle + count)
      add_damage(one,
                 "was written behind its end, first at offset " +
                     std::to_string(one.block.bytes + static_cast<std::size_t>(behind - middle)),
                 *behind, canary);
  }
  bool compare_freed(freed_block& one, std::size_t at, const unsigned char* bytes,
                     std::size_t count) noexcept {
    constexpr unsigned char freed = guard_patterns::freed;
    const unsigned char* const changed = std::find_if(bytes, bytes + count, is_other_than(freed));
    if (changed == bytes + count) return true;
    add_damage(one,
               "was written after it was freed, first at offset " +
                   std::to_string(at + static_cast<std::size_t>(changed - bytes)),
               *changed, freed);
    return false;
  }
  template <typename Sentence>
  void add(Sentence sentence) noexcept {
    detail::report_exceptions([&] {
      std::string text = sentence();
      const std::lock_guard lock{mutex_};
      reports_.push_back(std::move(text));
    });
  }
  /// Reports all so far, or throws it as one std::logic_error. Pre: no lock is held.
  void deliver(guard_damage how) {
    std::vector<std::string> found;
    {
      const std::lock_guard lock{mutex_};
      found.swap(reports_);
    }
    if (found.empty()) return;
    if (how == guard_damage::reports) {
      for (const std::string& each : found) detail::warn(subject, each);
      return;
    }
    std::string text = subject;
    for (const std::string& each : found) text += ": " + each;
    throw std::logic_error{text};
  }
  [[nodiscard]] std::uint64_t damages() const noexcept {
    const std::lock_guard lock{mutex_};
    return damages_;
  }

 private:
  static constexpr const char* subject = "guard_resource_adaptor";

  static std::string byte_text(unsigned char byte) {
    std::array<char, 8> text;
    std::snprintf(text.data(), text.size(), "0x%02x", byte);
    return text.data();
  }
  void add_damage(freed_block& one, const std::string& what, unsigned char found,
                  unsigned char expected) noexcept {
    {
      const std::lock_guard lock{mutex_};
      if (!one.is_damaged) ++damages_;
      one.is_damaged = true;
    }
    add([&] {
      return "a block of " + text_of(one) + " " + what + ": " + byte_text(found) + " instead of " +
             byte_text(expected) + calls_of(one);
    });
  }

  mutable std::mutex mutex_;
  std::vector<std::string> reports_;
  std::uint64_t damages_ = 0;
};

}  // namespace hipvmm::mr
