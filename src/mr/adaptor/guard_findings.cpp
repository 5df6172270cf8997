// SPDX-License-Identifier: MIT
#include "mr/adaptor/guard_findings.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <stdexcept>

#include "core/call_stack.hpp"

namespace hipvmm::mr {
namespace {

constexpr const char* guard_subject = "guard_resource_adaptor";

std::string byte_text(unsigned char byte) {
  std::array<char, 8> text;
  std::snprintf(text.data(), text.size(), "0x%02x", byte);
  return text.data();
}

auto is_other_than(unsigned char expected) {
  return [expected](unsigned char each) { return each != expected; };
}

}  // namespace

std::string text_of(const freed_block& one) {
  return std::to_string(one.block.bytes) + " bytes at " + detail::address_text(one.pointer);
}

std::string calls_text(const char* what, const call_addresses& calls) {
  if (calls.empty()) return {};
  return std::string{"\n"} + what + " by:\n" + detail::text_of_stack(calls);
}

std::string calls_of(const freed_block& one) {
  return calls_text("allocated", one.block.allocated_by) + calls_text("freed", one.freed_by);
}

void guard_findings::compare_canaries(freed_block& one, const unsigned char* copies,
                                      std::size_t count) noexcept {
  constexpr unsigned char canary = guard_patterns::canary;
  const unsigned char* const middle = copies + count;
  // An underflow begins at the byte next to the block.
  const auto last = std::make_reverse_iterator(copies);
  const auto before = std::find_if(std::make_reverse_iterator(middle), last, is_other_than(canary));
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

bool guard_findings::compare_freed(freed_block& one, std::size_t at, const unsigned char* bytes,
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

void guard_findings::add_damage(freed_block& one, const std::string& what, unsigned char found,
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

void guard_findings::deliver(guard_damage how) {
  std::vector<std::string> found;
  {
    const std::lock_guard lock{mutex_};
    found.swap(reports_);
  }
  if (found.empty()) return;
  if (how == guard_damage::reports) {
    for (const std::string& each : found) detail::warn(guard_subject, each);
    return;
  }
  std::string text = guard_subject;
  for (const std::string& each : found) text += ": " + each;
  throw std::logic_error{text};
}

std::uint64_t guard_findings::damages() const noexcept {
  const std::lock_guard lock{mutex_};
  return damages_;
}

}  // namespace hipvmm::mr
