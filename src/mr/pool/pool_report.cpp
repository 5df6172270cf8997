// SPDX-License-Identifier: MIT
#include "mr/pool/pool_report.hpp"

#include <algorithm>
#include <array>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"

namespace hipvmm::mr {
namespace {

constexpr std::array<const char*, pool_source_count> source_names{
    "its own stream or idle memory",     "a stream it was known to follow",
    "a stream that had passed",          "a stream it was made to wait for",
    "idle chunks moved together",        "new chunks",
    "memory that the caller waited for",
};

std::string stream_name(stream_ref stream) {
  return "stream " + detail::address_text(stream.get());
}

}  // namespace

std::string shortage_of(const pool_statistics& now, std::size_t bytes, std::size_t maximum,
                        std::size_t total) {
  std::string text = "the pool holds " + format_bytes(now.reserved_current) + " of at most " +
                     format_bytes(maximum) + ", of which " + format_bytes(now.used_current) +
                     " are in use. The largest request that it could serve is " +
                     format_bytes(now.largest_now) + " without moving chunks, " +
                     format_bytes(now.largest_moved) + " after moving idle chunks and " +
                     format_bytes(now.largest_possible) + " with new memory of the device. ";
  // A pool never holds more than the device has, whatever maximum_bytes is.
  if (bytes > total)
    text += "The request is larger than the device's memory of " + format_bytes(total) +
            ": request less";
  else if (now.used_current > total - bytes)
    text += "What is in use leaves no room for it: free memory";
  else if (bytes > maximum)
    text += "The request is larger than the pool may become: raise maximum_bytes";
  else if (now.used_current + bytes > maximum)
    text += "What is in use leaves no room for it: free memory, or raise maximum_bytes";
  else if (now.largest_possible < bytes && now.reserved_current < maximum)
    text += "The device has not enough free memory: other programs or pools hold it";
  else
    text += "Enough is free, but in parts of chunks that others still use";
  return text;
}

std::string report_of(const pool_statistics& now, device_ref device, std::size_t maximum) {
  const auto line = [](const std::string& name, const std::string& value) {
    return "  " + name + std::string(name.size() < 24 ? 24 - name.size() : 1, ' ') + value + "\n";
  };
  std::string text = "pool of device " + std::to_string(device.ordinal()) + "\n";
  text += line("allocated",
               format_bytes(now.used_current) + ", at most " + format_bytes(now.used_high));
  text += line("held from the device", format_bytes(now.reserved_current) + ", at most " +
                                           format_bytes(now.reserved_high) + ", limit " +
                                           format_bytes(maximum));
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
  // A screen has no room for more.
  constexpr std::size_t most_streams = 8;
  std::vector<pool_statistics::stream_share> streams = now.streams;
  if (!streams.empty())
    std::sort(streams.begin() + 1, streams.end(),
              [](const auto& a, const auto& b) { return a.free_bytes > b.free_bytes; });
  for (std::size_t i = 0; i < std::min(streams.size(), most_streams); ++i)
    text +=
        line(format_bytes(streams[i].free_bytes), i == 0 ? "idle" : stream_name(streams[i].stream));
  if (streams.size() > most_streams)
    text += line("...", std::to_string(streams.size() - most_streams) + " streams more");
  return text;
}

}  // namespace hipvmm::mr
