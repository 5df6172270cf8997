// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/copy.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/check.hpp"
#include "runtime/peer_copies.hpp"

namespace hipvmm {

using detail::check;

namespace {

// Pageable host memory up to this size is staged by HIP without waiting for the stream.
constexpr std::size_t staging_bytes = std::size_t{64} << 10;

/// The length of the shortest of 1, 2 and 4 bytes that `pattern` repeats; zero when none does.
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

/// Fills `count` words of 4 bytes with the first of `pattern`.
void fill_words(stream_ref stream, void* destination, const void* pattern, std::size_t count) {
  check(hipMemsetD32Async(destination, first_word<std::int32_t>(pattern), count, stream.get()),
        "hipMemsetD32Async");
}

/// Writes the `bytes` bytes at `source` (host memory) by fills, one for each run of equal words or
/// bytes. Fills carry their values, so that a graph does not refer to `source`.
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

/// Copies the `done` bytes at `start` behind themselves until there are `total`.
void double_until(stream_ref stream, unsigned char* start, std::size_t done, std::size_t total) {
  while (done < total) {
    const std::size_t next = std::min(done, total - done);
    copy_async(stream, start + done, start, next);
    done += next;
  }
}

}  // namespace

void copy_async(stream_ref stream, void* destination, const void* source, std::size_t bytes) {
  check(hipMemcpyAsync(destination, source, bytes, hipMemcpyDefault, stream.get()),
        "hipMemcpyAsync");
}

void copy(stream_ref stream, void* destination, const void* source, std::size_t bytes) {
  copy_async(stream, destination, source, bytes);
  stream.synchronize();
}

void copy_peer_async(stream_ref stream, void* destination, device_ref destination_device,
                     const void* source, device_ref source_device, std::size_t bytes) {
  check(hipMemcpyPeerAsync(destination, destination_device.ordinal(), source,
                           source_device.ordinal(), bytes, stream.get()),
        "hipMemcpyPeerAsync");
  detail::note_peer_copy(destination_device, source_device);
}

void fill_async(stream_ref stream, void* destination, unsigned char value, std::size_t bytes) {
  check(hipMemsetAsync(destination, value, bytes, stream.get()), "hipMemsetAsync");
}

void fill_pattern_async(stream_ref stream, void* destination, const void* pattern,
                        std::size_t pattern_bytes, std::size_t count) {
  if (pattern_bytes == 0 || count == 0) return;
  const auto* const bytes = static_cast<const unsigned char*>(pattern);
  const std::size_t total = pattern_bytes * count;

  const std::size_t period = short_period(bytes, pattern_bytes);
  if (period == 1) return fill_async(stream, destination, bytes[0], total);
  if (period != 0 && reinterpret_cast<std::uintptr_t>(destination) % period == 0) {
    if (period == 4) return fill_words(stream, destination, pattern, total / 4);
    check(
        hipMemsetD16Async(destination, first_word<std::uint16_t>(pattern), total / 2, stream.get()),
        "hipMemsetD16Async");
    return;
  }

  // No kernel in this library: first elements go over from the host, and the device doubles them.
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
