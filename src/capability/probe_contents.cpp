// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/vmm/access.hpp>
#include "capability/mapped_row.hpp"
#include "capability/probe.hpp"
#include "core/descriptors.hpp"
#include "core/error.hpp"
#include "runtime/device.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t pattern_bytes = word_count * sizeof(word);

/// As carries(), but kernels copy: bytes of `spare` to `to`, and those at `from` to the second page
/// of `spare`, which is visible.
bool carries_by_kernel(const probe_site& site, void* spare, void* to, const void* from, word seed) {
  auto* const sent = static_cast<word*>(spare);
  word* const got = sent + word_count;
  const std::vector<word> words = pattern(seed);
  copy(site.queue, sent, words.data(), pattern_bytes);
  fill_async(site.queue, got, 0, pattern_bytes);
  site.kernel(static_cast<word*>(to), sent, word_count, site.queue);
  site.kernel(got, static_cast<const word*>(from), word_count, site.queue);
  site.queue.synchronize();
  return words_at(site.queue, got) == words;
}

mapped_row visible_row(probe_site& site) {
  mapped_row row = granted_row(site, 1);
  static_cast<void>(carries_in_time(site, row.at(0), row.at(0), 20));
  return row;
}

/// From `mapped` until `look` is true; zero if at once, empty if it takes too long.
template <class Look>
std::optional<std::chrono::nanoseconds> time_until(clock::time_point mapped, Look look) {
  if (look()) return std::chrono::nanoseconds{0};
  while (clock::now() - mapped < longest_visibility_delay)
    if (look()) return clock::now() - mapped;
  return std::nullopt;
}

std::string in_microseconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count()) +
         " us";
}

}  // namespace

void probe_visible_at_once(probe_site& site) {
  constexpr std::size_t tries = 4;
  std::optional<mapped_row> spare;
  if (site.kernel) spare.emplace(visible_row(site));
  mapped_row row{site, tries};
  std::chrono::nanoseconds longest{0};
  while (row.size() < tries) {
    const clock::time_point mapped = clock::now();
    row.add();
    row.grant();
    site.during = "when a new mapping was used at once";
    void* const fresh = row.at(row.size() - 1);
    const word seed = static_cast<word>(21 + row.size());
    // The kernel first, because it misses mappings more easily.
    const auto seen = time_until(mapped, [&] {
      return (!spare || carries_by_kernel(site, spare->at(0), fresh, fresh, seed)) &&
             carries(site, fresh, fresh, seed);
    });
    longest = std::max(longest, seen.value_or(longest_visibility_delay));
  }
  row.undo();
  const std::string who = site.kernel ? "copies and kernels" : "copies";
  if (longest.count() == 0)
    return site.answer(trait::visible_at_once, finding::yes,
                       who + " found four new mappings at once");
  constexpr std::chrono::nanoseconds least = std::chrono::milliseconds{1};
  site.found.visibility_delay = std::max(2 * longest, least);
  site.answer(trait::visible_at_once, finding::no,
              who + " missed a new mapping for " + in_microseconds(longest));
}

void probe_crosses_chunks(probe_site& site) {
  mapped_row row = granted_row(site, 2);
  site.during = "when a copy spanned neighbouring mappings";
  void* const across = static_cast<char*>(row.at(1)) - pattern_bytes / 2;
  bool seen =
      carries_in_time(site, row.at(0), row.at(0), 30) && carries_in_time(site, across, across, 31);
  copy(site.queue, row.at(0), across, pattern_bytes);
  seen = seen && words_at(site.queue, row.at(0)) == pattern(31);
  if (seen && site.kernel) {
    const mapped_row spare = visible_row(site);
    site.during = "when a kernel spanned neighbouring mappings";
    seen = carries_by_kernel(site, spare.at(0), across, across, 32);
  }
  row.undo();
  const std::string who = site.kernel ? "copies and kernels" : "copies";
  site.answer(trait::crosses_chunks, seen, who + " spanned two neighbouring mappings",
              "not all bytes arrived of " + who + " that spanned two neighbouring mappings");
}

namespace {

/// Two neighbouring reservations of one unit each; empty if HIP ignores the hints.
std::optional<std::pair<address_reservation, address_reservation>> neighbours(probe_site& site) {
  site.during = "when neighbouring addresses were reserved";
  // Others may take the addresses in between.
  for (int tries = 0; tries < 3; ++tries) {
    void* base = nullptr;
    {
      const address_reservation both{2 * site.unit};
      base = both.get();
    }
    void* const middle = static_cast<char*>(base) + site.unit;
    address_reservation first{site.unit, 0, base};
    address_reservation second{site.unit, 0, middle};
    if (first.get() == base && second.get() == middle)
      return std::pair{std::move(first), std::move(second)};
  }
  return std::nullopt;
}

}  // namespace

void probe_crosses_reservations(probe_site& site) {
  auto addresses = neighbours(site);
  if (!addresses)
    // For a day, because each process would try in vain if HIP follows no hint.
    return site.found.set_until(trait::crosses_reservations, finding::unknown,
                                "not found out: no two neighbouring reservations could be made",
                                seconds_now() + longest_dated);
  mapped_row first{site, std::move(addresses->first)};
  mapped_row second{site, std::move(addresses->second)};
  for (mapped_row* const row : {&first, &second}) {
    row->add();
    row->grant();
  }
  void* const across = static_cast<char*>(second.at(0)) - pattern_bytes / 2;
  bool seen = carries_in_time(site, first.at(0), first.at(0), 34) &&
              carries_in_time(site, second.at(0), second.at(0), 35);
  site.during = "when a copy spanned neighbouring reservations";
  seen = seen && carries(site, across, across, 36);
  copy(site.queue, first.at(0), across, pattern_bytes);
  seen = seen && words_at(site.queue, first.at(0)) == pattern(36);
  site.during = "when a fill spanned neighbouring reservations";
  fill_async(site.queue, across, 0x5A, pattern_bytes);
  seen = seen && words_at(site.queue, across) == std::vector<word>(word_count, 0x5A5A5A5A);
  second.undo();
  first.undo();
  site.answer(trait::crosses_reservations, seen,
              "copies and a fill spanned two neighbouring reservations",
              "not all bytes arrived of copies that spanned two neighbouring reservations");
}

void probe_coherent_aliases(probe_site& site) {
  site.during = plain_chunk;
  const physical_chunk chunk{site.device, site.unit};
  site.during = "when addresses were reserved";
  const std::array<address_reservation, 2> addresses{address_reservation{site.unit},
                                                     address_reservation{site.unit}};
  site.during = "when one chunk was mapped at two addresses";
  const std::array<mapping, 2> maps{mapping{addresses[0], 0, chunk},
                                    mapping{addresses[1], 0, chunk}};
  const finished_work before_unmapping{site.queue};
  for (const mapping& each : maps)
    set_access(each.get(), each.bytes(), {site.device, access_right::read_write});
  site.during = "when one chunk was used at two addresses";
  void* const here = maps[0].get();
  void* const there = maps[1].get();
  // Each address shows the other's bytes first, so that caches have them.
  bool same = carries_in_time(site, here, there, 40);
  same = carries_in_time(site, there, here, 41) && same && carries(site, here, there, 42);
  if (same && site.kernel) {
    const mapped_row spare = visible_row(site);
    site.during = "when kernels used one chunk at two addresses";
    for (const word seed : {word{43}, word{44}, word{45}})
      same = same && carries_by_kernel(site, spare.at(0), here, there, seed) &&
             carries_by_kernel(site, spare.at(0), there, here, seed + 10);
  }
  if (!same)
    return site.answer(trait::coherent_aliases, finding::no,
                       "what was written at one address of a chunk was not read at another");
  if (site.kernel)
    return site.answer(trait::coherent_aliases, finding::yes,
                       "copies and kernels found at one address what was written at another");
  constexpr int rdna_lanes = 32;
  const bool is_rdna = warp_size_of(site.device) == rdna_lanes && !rules_of_runtime().is_cuda;
  if (is_rdna)
    return site.answer(trait::coherent_aliases, finding::no,
                       "copies found at one address what was written at another, but kernels may "
                       "not: the device has 32 lanes as RDNA has (ROCm/hip#3728)");
  site.answer(trait::coherent_aliases, finding::yes,
              "copies found at one address what was written at another; no kernel was tried, and "
              "only kernels of RDNA, which this is not, would not find it (ROCm/hip#3728)");
}

void probe_keeps_read_only(probe_site& site) {
  mapped_row row = granted_row(site, 1);
  site.during = "when mapped memory was written";
  static_cast<void>(carries_in_time(site, row.at(0), row.at(0), 50));
  site.during = "when a right was reduced to reading";
  set_access(row.at(0), site.unit, {site.device, access_right::read});
  site.during = "when memory was read that may only be read";
  if (words_at(site.queue, row.at(0)) != pattern(50))
    return site.answer(trait::keeps_read_only, finding::no,
                       "memory lost its bytes when its right was reduced to reading");
  std::string refusal;
  try {
    const std::vector<word> other = pattern(51);
    copy(site.queue, row.at(0), other.data(), pattern_bytes);
  } catch (const hip_error& error) {
    if (error.code() == hipErrorOutOfMemory) throw;
    refusal = std::string{"with "} + error_name(error.code());
  }
  if (refusal.empty()) {
    if (words_at(site.queue, row.at(0)) != pattern(50))
      return site.answer(trait::keeps_read_only, finding::no,
                         "a copy wrote to memory that may only be read");
    refusal = "silently";
  }
  site.answer(trait::keeps_read_only, finding::yes,
              "a copy to memory that may only be read was refused " + refusal);
}

void probe_peer_access(probe_site& site) {
  std::string reached;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref peer{ordinal};
    if (peer == site.device || !peer.can_access_peer(site.device)) continue;
    const std::string name = "device " + std::to_string(ordinal);
    mapped_row row{site, 1};
    row.add();
    site.during = "when " + name + " was granted access";
    access_map rights{site.device};
    rights.set(peer, access_right::read_write);
    rights.apply(row.at(0), site.unit);
    site.during = "when " + name + " used memory of its peer";
    const stream queue{peer};
    const finished_work before_unmapping{queue};
    static_cast<void>(carries_in_time(site, row.at(0), row.at(0), 60));
    bool same = words_at(queue, row.at(0)) == pattern(60);
    const std::vector<word> other = pattern(61);
    copy(queue, row.at(0), other.data(), pattern_bytes);
    same = same && words_at(site.queue, row.at(0)) == other;
    row.undo();
    if (!same)
      return site.answer(trait::peer_access, finding::no,
                         name + " did not read or write what this device has in its memory");
    reached += (reached.empty() ? "" : ", ") + name;
  }
  site.answer(
      trait::peer_access, finding::yes,
      reached.empty() ? "there is no peer that could fail" : "read and written by " + reached);
}

void probe_peer_copies(probe_site& site) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref peer{ordinal};
    if (peer == site.device || !site.device.can_access_peer(peer)) continue;
    const std::string name = "device " + std::to_string(ordinal);
    site.during = "when memory of " + name + " was made";
    const stream of_peer{peer};
    probe_site there{peer, site.unit, of_peer, site.kernel, site.found, {}};
    mapped_row source{there, 1};
    source.add();
    access_map rights{peer};
    rights.set(site.device, access_right::read_write);
    rights.apply(source.at(0), site.unit);
    mapped_row target = granted_row(site, 1);
    site.during = "when memory of " + name + " was copied into memory granted to its owner only";
    static_cast<void>(carries_in_time(there, source.at(0), source.at(0), 62));
    copy(site.queue, target.at(0), source.at(0), pattern_bytes);
    const bool same = words_at(site.queue, target.at(0)) == pattern(62);
    target.undo();
    source.undo();
    if (!same)
      return site.answer(
          trait::peer_copies, finding::no,
          "bytes of " + name + " did not arrive in memory granted to its owner only");
  }
  site.answer(trait::peer_copies, finding::yes,
              "copies from every peer reach memory that is granted to its owner only");
}

namespace {

/// Reads and writes memory by the system, which reports a fault instead of ending this process.
class touching_pipe {
 public:
  touching_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw std::bad_alloc{};
    read_end_ = file_descriptor{ends[0]};
    write_end_ = file_descriptor{ends[1]};
  }

  [[nodiscard]] bool take(const void* from, std::size_t bytes) const {
    return ::write(write_end_.get(), from, bytes) == static_cast<ssize_t>(bytes);
  }
  [[nodiscard]] bool give(void* to, std::size_t bytes) const {
    return ::read(read_end_.get(), to, bytes) == static_cast<ssize_t>(bytes);
  }

 private:
  file_descriptor read_end_;
  file_descriptor write_end_;
};

}  // namespace

void probe_host_access(probe_site& site) {
  mapped_row row = granted_row(site, 1);
  site.during = "when mapped memory was written";
  static_cast<void>(carries_in_time(site, row.at(0), row.at(0), 70));
  const touching_pipe pipe;
  std::vector<word> words(word_count);
  if (!pipe.take(row.at(0), pattern_bytes) || !pipe.give(words.data(), pattern_bytes))
    return site.answer(trait::host_access, finding::no,
                       "host code cannot read memory that its owner may use");
  const std::vector<word> other = pattern(71);
  if (words != pattern(70) || !pipe.take(other.data(), pattern_bytes) ||
      !pipe.give(row.at(0), pattern_bytes) || words_at(site.queue, row.at(0)) != other)
    return site.answer(trait::host_access, finding::no,
                       "host code and the device see different bytes in the same memory");
  row.undo();
  site.answer(trait::host_access, finding::yes,
              "host code read and wrote memory that its owner may use");
}

}  // namespace hipvmm::detail
