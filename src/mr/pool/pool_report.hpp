// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "mr/pool/allocator/placement.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::mr {

struct pool_bounds {
  device_ref device;
  const char* kind;   ///< "vmm_pool_resource"
  const char* owner;  ///< the setting of `maximum`
  std::size_t maximum;
  std::size_t addresses;
  std::size_t most_aligned;  ///< bytes from the first address with the request's alignment on
  std::size_t total;         ///< bytes of the device, or the greatest number
  std::size_t free;          ///< bytes of the device
};

/// `refused`: the backend's refusal, or null.
[[nodiscard]] inline shortage shortage_of(const pool::request& request, const pool_statistics& now,
                                          const pool_bounds& bounds, std::size_t largest_place,
                                          const shortage* refused) {
  const std::size_t bytes = request.bytes;
  shortage why{.device = bounds.device.ordinal(),
               .requested = bytes,
               .used = now.used_current,
               .alignment = request.alignment};
  const auto left_of = [&](std::size_t most) { return most - std::min(most, now.used_current); };
  const auto of_pool = [&](exhausted cause, std::size_t most, std::size_t available) {
    why.cause = cause;
    why.owner = std::string{"the "} + bounds.kind;
    why.most = most;
    why.available = available;
    return why;
  };
  if (bytes > bounds.most_aligned && bytes <= bounds.addresses)
    return of_pool(exhausted::alignment, bounds.most_aligned, 0);
  if (bytes > left_of(bounds.maximum)) {
    // A pool never holds more than the device has, whatever the setting is.
    if (bounds.maximum >= bounds.total || bytes > left_of(bounds.total)) {
      why.available = bounds.free;
      why.most = bounds.total;
      if (bytes <= bounds.total) why.context = "memory in use leaves no room for it";
      return why;
    }
    if (bounds.maximum >= bounds.addresses)
      return of_pool(exhausted::addresses, bounds.addresses, largest_place);
    static_cast<void>(of_pool(exhausted::limit, bounds.maximum, left_of(bounds.maximum)));
    why.owner = bounds.owner;
    return why;
  }
  if (refused != nullptr) {
    // Idle memory would suffice in one piece.
    const std::size_t idle =
        now.reserved_current - std::min(now.reserved_current, now.used_current);
    const bool is_scattered = refused->cause == exhausted::device_memory && bounds.free < bytes &&
                              idle >= bytes - bounds.free;
    if (is_scattered) return of_pool(exhausted::fragmentation, 0, now.largest_possible);
    why = *refused;
    why.used = now.used_current;
    // The backend asks for the request in parts, and has released those that it got.
    if (why.cause == exhausted::budget) {
      why.requested = bytes;
      why.available = detail::chunk_bytes_left(bounds.device);
    }
    if (why.cause == exhausted::device_memory) {
      why.requested = bytes;
      why.available = bounds.free;
      why.context += std::string{why.context.empty() ? "" : "; "} +
                     "The device has not enough free memory: other programs or pools hold it";
    }
    return why;
  }
  if (bytes > largest_place) return of_pool(exhausted::addresses, 0, largest_place);
  if (request.alignment > memory_resource::default_alignment && bytes <= now.largest_possible)
    return of_pool(exhausted::alignment, bounds.most_aligned, 0);
  return of_pool(exhausted::fragmentation, 0, now.largest_possible);
}

/// At most 24 lines, without `callbacks` and small shares.
[[nodiscard]] inline std::string report_of(const pool_statistics& now, device_ref device,
                                           std::size_t maximum) {
  static constexpr std::array<const char*, pool_source_count> source_names{
      "its own stream or idle memory",     "a stream it was known to follow",
      "a stream that had passed",          "a stream it was made to wait for",
      "idle chunks moved together",        "new chunks",
      "memory that the caller waited for",
  };
  const auto line = [](const std::string& name, const std::string& value) {
    return "  " + name + std::string(name.size() < 24 ? 24 - name.size() : 1, ' ') + value + "\n";
  };
  std::string text = "pool of device " + std::to_string(device.ordinal()) + "\n";
  text += line("allocated",
               format_bytes(now.used_current) + ", at most " + format_bytes(now.used_high));
  text += line("held from the device", format_bytes(now.reserved_current) + ", at most " +
                                           format_bytes(now.reserved_high) + ", limit " +
                                           format_limit(maximum));
  text += line("addresses",
               format_bytes(now.mapped_bytes) + " mapped of " + format_bytes(now.address_bytes));
  text += line("largest request now", format_bytes(now.largest_now) + "; after moving chunks " +
                                          format_bytes(now.largest_moved) + "; with new memory " +
                                          format_bytes(now.largest_possible));
  text += line("chunks", std::to_string(now.chunks_created) + " created, " +
                             std::to_string(now.chunks_moved) + " moved");
  text += "requests served from\n";
  for (std::size_t i = 0; i < now.served.size(); ++i)
    text += line(std::to_string(now.served[i]), source_names[i]);
  text += "free, by the stream that gave it back\n";
  constexpr std::size_t most_streams = 8;
  std::vector<pool_statistics::stream_share> streams = now.streams;
  if (!streams.empty())
    std::sort(streams.begin() + 1, streams.end(),
              [](const auto& a, const auto& b) { return a.free_bytes > b.free_bytes; });
  for (std::size_t i = 0; i < std::min(streams.size(), most_streams); ++i)
    text += line(format_bytes(streams[i].free_bytes),
                 i == 0 ? "idle" : "stream " + detail::address_text(streams[i].stream.get()));
  if (streams.size() > most_streams)
    text += line("...", std::to_string(streams.size() - most_streams) + " streams more");
  return text;
}

}  // namespace hipvmm::mr
