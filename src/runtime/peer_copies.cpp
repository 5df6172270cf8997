// SPDX-License-Identifier: MIT
#include "runtime/peer_copies.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "runtime/pointer_memory.hpp"
#include "runtime/runtime_rules.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {
namespace {

// More than any runtime has.
constexpr std::size_t most_devices = 256;

using flags = std::array<std::atomic<bool>, most_devices>;
std::array<flags, most_devices> copied;

std::size_t index_of(device_ref device) noexcept {
  return static_cast<std::size_t>(device.ordinal()) % most_devices;
}

void set(std::atomic<bool>& flag) noexcept {
  // Read first, so that the cache line stays shared.
  if (!flag.load(std::memory_order_relaxed)) flag.store(true, std::memory_order_release);
}

bool reaches(device_ref user, device_ref owner) {
  return user == owner || user.can_access_peer(owner);
}

struct machine_links {
  bool any = false;
  bool all = true;
};

const machine_links& links_of_machine() {
  static const machine_links found = [] {
    machine_links links;
    for (int user = 0; user < device_count(); ++user) {
      for (int owner = 0; owner < device_count(); ++owner) {
        const bool is_linked = reaches(device_ref{user}, device_ref{owner});
        links.any = links.any || (is_linked && user != owner);
        links.all = links.all && is_linked;
      }
    }
    return links;
  }();
  return found;
}

/// hipGetStreamDeviceId returns no error, and AMD's runtime leaves none behind.
failed_look failed_stream_look() noexcept {
  const hipError_t left = take_last_error();
  return {left == hipSuccess ? hipErrorInvalidHandle : left, "hipGetStreamDeviceId"};
}

class owners_of_range {
 public:
  owners_of_range(const void* start, std::size_t bytes) noexcept
      : start_{static_cast<const char*>(start)}, bytes_{bytes} {}

  /// The device of the byte at `offset`; empty if it is of none, or if HIP failed.
  [[nodiscard]] std::optional<device_ref> at(std::size_t offset) noexcept {
    if (offset >= end_) look_at(offset);
    return owner_;
  }
  /// The first offset that may be of another device than the last one passed to at().
  [[nodiscard]] std::size_t end() const noexcept { return end_; }
  [[nodiscard]] const failed_look& failure() const noexcept { return failure_; }

 private:
  void look_at(std::size_t offset) noexcept {
    const char* const byte = start_ + offset;
    const pointer_memory found = memory_at(byte);
    failure_ = {found.failure, "hipPointerGetAttributes"};
    end_ = bytes_;
    owner_.reset();
    if (found.kind != pointer_kind::device) return;
    const void* base = nullptr;
    std::size_t bytes = 0;
    const hipError_t result = query_range(byte, base, bytes);
    const auto* const next = static_cast<const char*>(base) + bytes;
    if (result == hipSuccess) {
      if (next > byte) end_ = std::min(bytes_, static_cast<std::size_t>(next - start_));
    } else {
      clear_last_error();
      // Memory without known bounds is of one device.
      if (result != hipErrorInvalidValue && result != hipErrorNotFound) {
        failure_ = {result, "hipMemGetAddressRange"};
        return;
      }
    }
    owner_ = found.device;
  }

  const char* start_;
  std::size_t bytes_;
  std::size_t end_ = 0;
  std::optional<device_ref> owner_;
  failed_look failure_;
};

std::string text_of(device_ref device) { return "device " + std::to_string(device.ordinal()); }

/// HIP names device 0 for chunks in memory of the host, which need no link. Only such memory grants
/// `carrier` a right without a link: then returns `carrier`, else `owner`.
device_ref owner_for(device_ref carrier, device_ref owner, const void* at) {
  if (reaches(carrier, owner)) return owner;
  unsigned long long right = 0;
  if (query_access(at, carrier, right) == hipSuccess)
    return right == hipMemAccessFlagsProtReadWrite ? carrier : owner;
  clear_last_error();
  return owner;
}

[[noreturn]] void refuse_fill(device_ref carrier, device_ref owner) {
  throw unsupported{"a fill in a stream of " + text_of(carrier) + ": " + text_of(carrier) +
                    " cannot reach memory of " + text_of(owner) +
                    ", because they have no link, and AMD's runtime would end the process; use a "
                    "stream of " +
                    text_of(owner)};
}

void refuse_missing_link(device_ref carrier, device_ref one, device_ref other) {
  const auto missing = missing_link(carrier, one, other);
  if (!missing) return;
  throw unsupported{"a copy between memory of " + text_of(one) + " and of " + text_of(other) +
                    " in a stream of " + text_of(carrier) + ": " + text_of(missing->first) +
                    " has no link to " + text_of(missing->second) +
                    ", and AMD's runtime would end the process, because other devices are linked; "
                    "copy through memory of the host"};
}

}  // namespace

bool copies_need_links() {
  const runtime_rules& rules = rules_of_runtime();
  if (!rules.copies_over_links_of_stream && !rules.copies_over_links_of_owners) return false;
  return links_of_machine().any && !links_of_machine().all;
}

std::optional<std::pair<device_ref, device_ref>> missing_link(device_ref carrier, device_ref one,
                                                              device_ref other) {
  if (one == other || !copies_need_links()) return std::nullopt;
  const runtime_rules& rules = rules_of_runtime();
  if (rules.copies_over_links_of_stream)
    for (const device_ref owner : {one, other})
      if (!reaches(carrier, owner)) return std::pair{carrier, owner};
  if (rules.copies_over_links_of_owners && carrier != one && carrier != other &&
      !reaches(one, other))
    return std::pair{one, other};
  return std::nullopt;
}

failed_look require_links(stream_ref stream, device_ref one, device_ref other) {
  if (one == other || !copies_need_links()) return {};
  const std::optional<device_ref> carrier = device_of_stream(stream);
  if (!carrier) return failed_stream_look();
  refuse_missing_link(*carrier, one, other);
  return {};
}

failed_look require_links(stream_ref stream, const void* destination, const void* source,
                          std::size_t bytes) {
  if (!copies_need_links()) return {};
  owners_of_range sources{source, bytes};
  owners_of_range destinations{destination, bytes};
  std::optional<device_ref> carrier;
  for (std::size_t done = 0; done < bytes; done = std::min(sources.end(), destinations.end())) {
    const std::optional<device_ref> from = sources.at(done);
    if (!from) return sources.failure();
    const std::optional<device_ref> to = destinations.at(done);
    if (!to) return destinations.failure();
    if (*to == *from) continue;
    if (!carrier) carrier = device_of_stream(stream);
    if (!carrier) return failed_stream_look();
    // HIP itself looks at the first byte, and takes its owner.
    const auto owner = [&](device_ref of, const void* start) {
      return done == 0 ? of : owner_for(*carrier, of, static_cast<const char*>(start) + done);
    };
    refuse_missing_link(*carrier, owner(*to, destination), owner(*from, source));
  }
  return {};
}

failed_look require_link_to(stream_ref stream, const void* destination, std::size_t bytes) {
  if (!rules_of_runtime().fills_over_links || links_of_machine().all) return {};
  owners_of_range owners{destination, bytes};
  std::optional<device_ref> carrier;
  for (std::size_t done = 0; done < bytes; done = owners.end()) {
    const std::optional<device_ref> owner = owners.at(done);
    if (!owner) return owners.failure();
    if (!carrier) carrier = device_of_stream(stream);
    if (!carrier) return failed_stream_look();
    const device_ref seen =
        done == 0 ? *owner
                  : owner_for(*carrier, *owner, static_cast<const char*>(destination) + done);
    if (!reaches(*carrier, seen)) refuse_fill(*carrier, seen);
  }
  return {};
}

void note_peer_copy(device_ref one, device_ref other) noexcept {
  if (one == other) return;
  set(copied[index_of(one)][index_of(other)]);
  set(copied[index_of(other)][index_of(one)]);
}

std::optional<device_ref> next_copied_with(device_ref device, int after) noexcept {
  const flags& with = copied[index_of(device)];
  for (std::size_t other = static_cast<std::size_t>(after + 1); other < most_devices; ++other) {
    if (with[other].load(std::memory_order_acquire)) return device_ref{static_cast<int>(other)};
  }
  return std::nullopt;
}

}  // namespace hipvmm::detail
