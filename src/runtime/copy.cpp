// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/copy.hpp>

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/pointer_memory.hpp"
#include "runtime/runtime_rules.hpp"
#include "runtime/stream.hpp"

namespace hipvmm {

namespace {

// Pageable host memory up to this size is staged by HIP without waiting for the stream.
constexpr std::size_t staging_bytes = std::size_t{64} << 10;

struct copy_side {
  const void* address;
  std::optional<device_ref> named;  ///< by copy_peer_async()
};

struct copy_request {
  stream_ref stream;
  copy_side destination;
  std::optional<copy_side> source;  ///< empty for a fill
  std::size_t bytes;
};

// More than a large vector has.
constexpr int most_mappings = 4096;

std::string name_of(device_ref device) { return "device " + std::to_string(device.ordinal()); }

/// True if the system does not say.
bool is_readable(const void* address) {
  std::ifstream maps{"/proc/self/maps"};
  if (!maps) return true;
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::string rest;
  std::uintptr_t from = 0;
  std::uintptr_t to = 0;
  char dash = 0;
  std::string rights;
  while (maps >> std::hex >> from >> dash >> to >> rights && std::getline(maps, rest))
    if (wanted >= from && wanted < to) return rights.front() == 'r';
  return false;
}

std::string kind_text(const detail::pointer_memory& found) {
  switch (found.kind) {
    case detail::pointer_kind::device:
      return " (memory of " + name_of(found.device) + ")";
    case detail::pointer_kind::pinned:
      return " (pinned memory of the host)";
    case detail::pointer_kind::managed:
      return " (managed memory)";
    case detail::pointer_kind::unknown:
    case detail::pointer_kind::no_answer:
      break;
  }
  return {};
}

std::string right_defect(const void* address, device_ref owner, device_ref user, bool is_written) {
  constexpr unsigned long long unset = ~0ULL;
  unsigned long long flags = unset;
  const hipError_t result = detail::query_access(address, user, flags);
  const std::string user_name = name_of(user);
  if (result != hipSuccess || flags == unset) {
    // No mapping: memory of hipMalloc or of a pool, or HIP has no virtual memory management.
    detail::clear_last_error();
    if (user == owner) return {};
    const std::string advice = "use a stream of " + name_of(owner) + ", or copy_peer_async";
    if (!user.can_access_peer(owner))
      return user_name + " cannot reach memory of " + name_of(owner) + ": " + advice;
    return user_name + " may have no right to memory of " + name_of(owner) + ": " + advice +
           ", or grant it (chunks) or call hipDeviceEnablePeerAccess (hipMalloc)";
  }
  const std::string grant = "grant(" + name_of(user);
  if (flags == hipMemAccessFlagsProtReadWrite) return {};
  if (flags == hipMemAccessFlagsProtRead) {
    if (!is_written) return {};
    return user_name + " may only read memory of " + name_of(owner) + ": " + grant +
           ", access_right::read_write)";
  }
  if (user != owner && !user.can_access_peer(owner))
    return user_name + " cannot reach memory of " + name_of(owner) + ": use a stream of " +
           name_of(owner) + ", or copy_peer_async";
  return user_name + " has no right to memory of " + name_of(owner) + ": " + grant + ")" +
         (user != owner ? ", or use a stream of " + name_of(owner) : "");
}

/// Returns the first address in [begin, end) without memory if the last byte has none, else `end`.
/// For CUDA, which reports a whole reservation as the memory at an address.
const char* first_unknown(const char* begin, const char* end) {
  const auto is_known = [](const char* at) {
    return detail::memory_at(at).kind != detail::pointer_kind::unknown;
  };
  if (is_known(end - 1)) return end;
  const char* known = begin;
  const char* unknown = end - 1;
  while (unknown - known > 1) {
    const char* const middle = known + (unknown - known) / 2;
    (is_known(middle) ? known : unknown) = middle;
  }
  return unknown;
}

std::string side_defect(const char* what, const copy_side& side, std::size_t bytes,
                        std::optional<device_ref> user, bool is_written) {
  const auto* at = static_cast<const char*>(side.address);
  const char* const end = at + bytes;
  for (int mappings = 0; at < end && mappings < most_mappings; ++mappings) {
    const detail::pointer_memory found = detail::memory_at(at);
    if (found.kind == detail::pointer_kind::unknown && !is_readable(at))
      return std::string{"the "} + what + " " + detail::address_text(at) +
             " is not backed by memory, or was freed: commit memory there, resume() the tag under "
             "which it sleeps, or pass allocated memory";
    if (found.kind != detail::pointer_kind::device) return {};
    if (side.named && *side.named != found.device)
      return std::string{"the "} + what + " is memory of " + name_of(found.device) +
             " and not of " + name_of(*side.named) + ", as the call says";
    const device_ref worker = side.named ? *side.named : user.value_or(found.device);
    std::string defect = right_defect(at, found.device, worker, is_written);
    // ROCm up to 6.4 copies between host and device by the rights of the memory's owner.
    if (defect.empty() && worker != found.device)
      defect = right_defect(at, found.device, found.device, is_written);
    if (!defect.empty()) return std::string{"at the "} + what + " " + defect;
    const auto* const next = static_cast<const char*>(detail::end_of_memory(at));
    if (next <= at) break;
    at = next < end ? next : first_unknown(at, end);
  }
  return {};
}

struct findings {
  std::string destination_kind;
  std::string source_kind;
  std::string stream_device;
  std::string defects;

  void add(const std::string& defect) {
    if (!defect.empty()) defects += "; " + defect;
  }
};

void ask(hipError_t result, const copy_request& request, findings& found) {
  if (detail::is_stream_missing(result))
    return found.add(detail::missing_stream_text(request.stream.get()));
  if (result == hipErrorDeinitialized) return;
  // Asked first, because it invalidates no capture.
  if (detail::is_captured(request.stream.get()))
    return found.add(
        "the stream is captured, or a capture forbids its use, so that HIP was not asked what is "
        "there");
  found.destination_kind = kind_text(detail::memory_at(request.destination.address));
  if (request.source) found.source_kind = kind_text(detail::memory_at(request.source->address));
  const std::optional<device_ref> user = detail::device_of_stream(request.stream);
  if (user) found.stream_device = " of " + name_of(*user);
  if (request.source) found.add(side_defect("source", *request.source, request.bytes, user, false));
  found.add(side_defect("destination", request.destination, request.bytes, user, true));
  if (!detail::rules_of_runtime().other_side_copies || !request.source || !found.defects.empty())
    return;
  const auto add_for = [&](const char* what, const copy_side& side, const copy_side& other) {
    const detail::pointer_memory there = detail::memory_at(other.address);
    if (there.kind == detail::pointer_kind::device || there.kind == detail::pointer_kind::pinned)
      found.add(side_defect(what, {side.address, {}}, request.bytes, there.device,
                            &side == &request.destination));
  };
  add_for("destination", request.destination, *request.source);
  if (found.defects.empty()) add_for("source", *request.source, request.destination);
}

/// Throws: hip_error. Clears HIP's last error.
[[noreturn]] void throw_copy_failure(hipError_t result, const char* call,
                                     const copy_request& request, std::source_location where) {
  findings found;
  try {
    ask(result, request, found);
  } catch (const std::exception&) {
    // The caller gets the copy's failure.
  }
  std::string text = std::to_string(request.bytes) + " bytes were to be ";
  text += request.source ? "copied from " + detail::address_text(request.source->address) +
                               found.source_kind + " to "
                         : std::string{"set at "};
  text += detail::address_text(request.destination.address) + found.destination_kind +
          " in stream " + detail::address_text(request.stream.get()) + found.stream_device +
          found.defects;
  detail::throw_failure(result, call, text, where);
}

void check_copy(hipError_t result, const char* call, const copy_request& request,
                std::source_location where = std::source_location::current()) {
  if (result != hipSuccess) throw_copy_failure(result, call, request, where);
}

void check_fill(hipError_t result, const char* call, stream_ref stream, const void* destination,
                std::size_t bytes) {
  check_copy(result, call, {stream, {destination, {}}, {}, bytes});
}

/// The shortest of 1, 2 and 4 bytes that `pattern` repeats; zero if none does.
std::size_t short_period(const unsigned char* pattern, std::size_t bytes) {
  for (const std::size_t period : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    if (bytes % period == 0 && std::equal(pattern + period, pattern + bytes, pattern))
      return period;
  }
  return 0;
}

template <typename Word>
Word first_word(const void* pattern) {
  Word word;
  std::memcpy(&word, pattern, sizeof(Word));
  return word;
}

void fill_words(stream_ref stream, void* destination, const void* pattern, std::size_t count) {
  check_fill(hipMemsetD32Async(destination, first_word<std::int32_t>(pattern), count, stream.get()),
             "hipMemsetD32Async", stream, destination, 4 * count);
}

/// One fill for each run of equal words or bytes: unlike copies, fills do not make a graph refer to
/// `source`.
void write_by_fills(stream_ref stream, unsigned char* destination, const unsigned char* source,
                    std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const bool is_word = reinterpret_cast<std::uintptr_t>(destination + done) % 4 == 0;
    const std::size_t unit = is_word && bytes - done >= 4 ? 4 : 1;
    std::size_t run = unit;
    while (bytes - done - run >= unit &&
           std::equal(source + done, source + done + unit, source + done + run))
      run += unit;
    if (unit == 4)
      fill_words(stream, destination + done, source + done, run / 4);
    else
      fill_async(stream, destination + done, source[done], run);
    done += run;
  }
}

void double_until(stream_ref stream, unsigned char* start, std::size_t done, std::size_t total) {
  while (done < total) {
    const std::size_t next = std::min(done, total - done);
    detail::copy_among_linked(stream, start + done, start, next);
    done += next;
  }
}

}  // namespace

std::optional<device_ref> detail::device_of_stream(stream_ref stream) {
  if (stream.is_default() || stream.is_per_thread_default()) return device_ref::current();
  const int ordinal = hipGetStreamDeviceId(stream.get());
  if (ordinal < 0) return std::nullopt;
  return device_ref{ordinal};
}

void copy_async(stream_ref stream, void* destination, const void* source, std::size_t bytes) {
  const auto [result, call] = detail::require_links(stream, destination, source, bytes);
  check_copy(result, call, {stream, {destination, {}}, copy_side{source, {}}, bytes});
  detail::copy_among_linked(stream, destination, source, bytes);
}

void detail::copy_among_linked(stream_ref stream, void* destination, const void* source,
                               std::size_t bytes) {
  check_copy(hipMemcpyAsync(destination, source, bytes, hipMemcpyDefault, stream.get()),
             "hipMemcpyAsync", {stream, {destination, {}}, copy_side{source, {}}, bytes});
}

void copy(stream_ref stream, void* destination, const void* source, std::size_t bytes) {
  copy_async(stream, destination, source, bytes);
  stream.synchronize();
}

void copy_peer_async(stream_ref stream, void* destination, device_ref destination_device,
                     const void* source, device_ref source_device, std::size_t bytes) {
  const auto [result, call] = detail::require_links(stream, destination_device, source_device);
  check_copy(result, call,
             {stream, {destination, destination_device}, copy_side{source, source_device}, bytes});
  check_copy(hipMemcpyPeerAsync(destination, destination_device.ordinal(), source,
                                source_device.ordinal(), bytes, stream.get()),
             "hipMemcpyPeerAsync",
             {stream, {destination, destination_device}, copy_side{source, source_device}, bytes});
  detail::note_peer_copy(destination_device, source_device);
}

void fill_async(stream_ref stream, void* destination, unsigned char value, std::size_t bytes) {
  const auto [result, call] = detail::require_link_to(stream, destination, bytes);
  check_fill(result, call, stream, destination, bytes);
  check_fill(hipMemsetAsync(destination, value, bytes, stream.get()), "hipMemsetAsync", stream,
             destination, bytes);
}

void fill_pattern_async(stream_ref stream, void* destination, const void* pattern,
                        std::size_t pattern_bytes, std::size_t count) {
  if (pattern_bytes == 0 || count == 0) return;
  if (pattern == nullptr)
    throw std::invalid_argument{"fill_pattern_async: the pattern is nullptr: pass its address"};
  const auto* const bytes = static_cast<const unsigned char*>(pattern);
  const std::size_t total = bytes_for(count, pattern_bytes);
  const auto [result, call] = detail::require_link_to(stream, destination, total);
  check_fill(result, call, stream, destination, total);

  const std::size_t period = short_period(bytes, pattern_bytes);
  if (period == 1) return fill_async(stream, destination, bytes[0], total);
  if (period != 0 && reinterpret_cast<std::uintptr_t>(destination) % period == 0) {
    if (period == 4) return fill_words(stream, destination, pattern, total / 4);
    check_fill(
        hipMemsetD16Async(destination, first_word<std::uint16_t>(pattern), total / 2, stream.get()),
        "hipMemsetD16Async", stream, destination, total);
    return;
  }

  // The library has no kernel: the host copies first elements, and the device doubles them.
  auto* const start = static_cast<unsigned char*>(destination);
  if (stream.is_capturing()) {
    // A captured copy reads the host's memory at each launch.
    write_by_fills(stream, start, bytes, pattern_bytes);
    return double_until(stream, start, pattern_bytes, total);
  }
  const std::size_t staged =
      std::min(count, std::max<std::size_t>(staging_bytes / pattern_bytes, 1));
  std::vector<unsigned char> staging(staged > 1 ? staged * pattern_bytes : 0);
  for (std::size_t i = 0; i < staging.size(); i += pattern_bytes)
    std::memcpy(staging.data() + i, pattern, pattern_bytes);
  copy_async(stream, start, staging.empty() ? pattern : staging.data(), staged * pattern_bytes);
  double_until(stream, start, staged * pattern_bytes, total);
}

}  // namespace hipvmm
