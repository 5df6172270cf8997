// SPDX-License-Identifier: MIT
#include "race/race_reports.hpp"

#include <cinttypes>
#include <cstdio>

namespace hipvmm::host_provider {
namespace {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%" PRIx64, value);
  return text.data();
}

std::string name_of(const std::optional<race_stream>& stream) {
  if (!stream) return "on the host";
  const std::string device = " of device " + std::to_string(stream->device);
  if (stream->order == stream_order::null) return "in the null stream" + device;
  if (stream->handle == 0) return "in a per-thread stream" + device;
  return (stream->order == stream_order::blocking ? "in blocking" : "in non-blocking") +
         (" stream " + hexadecimal(stream->handle)) + device;
}

const char* title_of(race_fault fault) noexcept {
  switch (fault) {
    case race_fault::use_before_allocation:
      return "use before allocation";
    case race_fault::use_after_free:
      return "use after free";
    case race_fault::reuse:
      return "reuse without order";
    case race_fault::taken_away:
      return "memory taken away in use";
    default:
      return "race";
  }
}

// The missing order between the two, and the remedy.
const char* advice_on(race_fault fault) noexcept {
  switch (fault) {
    case race_fault::use_before_allocation:
      return "The second does not come after the allocation. Record an event behind the allocation "
             "and let the stream of the second wait for it.";
    case race_fault::use_after_free:
      return "Free memory behind all work that uses it: record an event behind that work and let "
             "the stream of the free wait for it.";
    case race_fault::reuse:
      return "The allocation does not come after the free. Record an event behind the free and let "
             "the stream of the allocation wait for it, or allocate other bytes.";
    case race_fault::taken_away:
      return "The host does not know that the first has finished. Synchronise with its stream, or "
             "with an event behind it, before.";
    default:
      return "Neither comes after the other. Record an event behind the first and let the stream "
             "of the second wait for it.";
  }
}

const char* verb_of(race_part part) noexcept {
  switch (part) {
    case race_part::prefetches:
      return "prefetches them";
    case race_part::reads:
      return "reads them";
    case race_part::writes:
      return "writes them";
    case race_part::allocates:
      return "allocates them";
    case race_part::frees:
      return "frees them";
    default:
      return "takes them away";
  }
}

std::string clause_of(const race_party& party) {
  return std::string{party.origin->function} + " " + verb_of(party.part) + ", " +
         name_of(party.origin->stream);
}

/// States that the stream of `one` was destroyed, if `other` is of a later one with its handle.
std::string difference(const race_origin& one, const race_origin& other) {
  const bool has_later = one.stream && other.stream && one.stream->handle != 0 &&
                         one.stream->handle == other.stream->handle &&
                         one.stream->number < other.stream->number;
  return has_later ? ", an earlier stream with that handle" : "";
}

std::size_t hash_of(const race_stack& stack) {
  std::size_t hash = 0;
  for (const void* const each : stack.of_program()) {
    hash = hash * 31 + std::hash<const void*>{}(each);
  }
  return hash;
}

std::string text_of(const race_finding& found) {
  const std::string count = std::to_string(found.end - found.start);
  std::string text = "hipvmm order checker: " + std::string{title_of(found.fault)} + " of " +
                     count + (found.end - found.start == 1 ? " byte" : " bytes") + " at " +
                     hexadecimal(found.start) + "\n";
  text += "  bytes: " + hexadecimal(found.start) + " to " + hexadecimal(found.end) + ", " +
          found.place + "\n";
  text += "  first: " + clause_of(found.earlier) +
          difference(*found.earlier.origin, *found.later.origin) + "\n" +
          found.earlier.origin->stack.text();
  text += "  second: " + clause_of(found.later) + "\n" + found.later.origin->stack.text();
  if (found.holder != nullptr && found.holder != found.earlier.origin) {
    const race_party holder{found.holder, race_part::allocates};
    text += "  before: " + clause_of(holder) + difference(*found.holder, *found.later.origin) +
            "\n" + found.holder->stack.text();
  }
  return text + "  " + advice_on(found.fault) + "\n";
}

}  // namespace

bool race_reports::is_new(const race_finding& found) {
  return told_
      .emplace(found.fault, hash_of(found.earlier.origin->stack),
               hash_of(found.later.origin->stack))
      .second;
}

void race_reports::add(const race_finding& found) {
  last_ = text_of(found);
  ++count_;
  std::fwrite(last_.data(), 1, last_.size(), stderr);
}

void race_reports::clear() {
  told_.clear();
  count_ = 0;
  last_.clear();
}

}  // namespace hipvmm::host_provider
