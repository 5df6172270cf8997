// SPDX-License-Identifier: MIT
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "capability/mapped_row.hpp"
#include "capability/probe.hpp"
#include "core/error.hpp"
#include "runtime/runtime_rules.hpp"
#include "vmm/physical_chunk.hpp"
#include "vmm/shareable_handle.hpp"

namespace hipvmm::detail {
namespace {

/// Empty if others changed free memory.
struct returned {
  std::optional<bool> early;  // when unmapped and released
  std::optional<bool> late;   // when the addresses were freed too
};

std::size_t free_memory(probe_site& site) {
  site.during = "when free memory was asked for";
  return site.device.free_memory();
}

returned measure_returned_memory(probe_site& site, std::size_t count) {
  const std::size_t bytes = count * site.unit;
  const std::size_t before = free_memory(site);
  mapped_row row = granted_row(site, count);
  const std::size_t taken = free_memory(site);
  row.unmap();
  const std::size_t released = free_memory(site);
  row.undo();
  const std::size_t freed = free_memory(site);

  // Half as a margin: chunks cost more than their bytes, and others change free memory.
  const auto is_about = [bytes](std::size_t more, std::size_t less, std::size_t wanted) {
    return more >= less && more - less + bytes / 2 > wanted && more - less < wanted + bytes / 2;
  };
  returned result;
  if (!is_about(before, taken, bytes)) return result;
  const auto judge = [&](std::size_t now) -> std::optional<bool> {
    if (is_about(now, taken, bytes)) return true;
    if (is_about(std::max(now, taken), std::min(now, taken), 0)) return false;
    return std::nullopt;
  };
  result.early = judge(released);
  result.late = judge(freed);
  return result;
}

/// One side must lead by three, because other processes change free memory: a wrong `no` was kept
/// on an H200 beside seven others that probed at once.
class votes {
 public:
  static constexpr int most_rounds = 12;
  void add(std::optional<bool> vote) {
    if (vote)
      ++(*vote ? yes_ : no_);
    else
      ++disturbed_;
  }
  [[nodiscard]] bool is_decided() const { return std::abs(yes_ - no_) >= 3; }
  [[nodiscard]] bool is_yes() const { return yes_ > no_; }
  /// An answer that is not unanimous holds for this process only.
  void answer(probe_site& site, trait which, std::string if_yes, std::string if_no) const {
    if (!is_decided())
      return site.answer(which, finding::unknown,
                         "free memory changed by other hands while it was watched (" +
                             std::to_string(yes_) + " times for, " + std::to_string(no_) +
                             " times against)",
                         persistence::open);
    const bool is_clean = disturbed_ + std::min(yes_, no_) == 0;
    site.answer(which, is_yes() ? finding::yes : finding::no,
                is_yes() ? std::move(if_yes) : std::move(if_no),
                is_clean ? persistence::lasting : persistence::passing);
  }
  void answer(probe_site& site, trait which, const std::string& when) const {
    answer(site, which, "the memory of some chunks came back when " + when,
           "the memory of some chunks did not come back when " + when);
  }

 private:
  int yes_ = 0;
  int no_ = 0;
  int disturbed_ = 0;
};

/// Seldom as many as another process's that probes at the same time.
std::size_t chunks_of_round(int round) {
  return 4 + static_cast<std::size_t>(::getpid() + 3 * round) % 7;
}

}  // namespace

void probe_returned_memory(probe_site& site) {
  votes early;
  votes late;
  for (int round = 0; round < votes::most_rounds && !(early.is_decided() && late.is_decided());
       ++round) {
    const returned seen = measure_returned_memory(site, chunks_of_round(round));
    early.add(seen.early);
    late.add(seen.late);
  }
  early.answer(site, trait::returns_memory, "they were unmapped and released");
  late.answer(site, trait::returns_with_addresses, "their addresses were freed too");
}

namespace {

bool shows_same_memory(probe_site& site, import_form form, const shareable_handle& handle,
                       const mapped_row& row) {
  site.during = form == import_form::value ? "when a descriptor's value was imported"
                                           : "when a pointer to a descriptor was imported";
  const physical_chunk imported = import_chunk_as(form, handle, site.device);
  site.during = "when addresses were reserved";
  const address_reservation addresses{site.unit};
  site.during = "when an imported chunk was mapped";
  const mapping map{addresses, 0, imported};
  const finished_work before_unmapping{site.queue};
  site.during = "when the owner was granted an imported chunk";
  set_access(map.get(), map.bytes(), {site.device, access_right::read_write});
  site.during = "when an imported chunk was read";
  return carries_in_time(site, row.at(0), map.get(), 80);
}

/// Empty if HIP knows no such chunks.
std::optional<mapped_row> exportable_row(probe_site& site) {
  mapped_row row{site, 1};
  site.during = "when a chunk was created that can be exported";
  try {
    row.chunks.emplace_back(site.device, site.unit, handle_type::posix_fd);
  } catch (const hip_error& error) {
    if (error.code() != hipErrorNotSupported) throw;
    return std::nullopt;
  }
  site.during = "when a chunk was mapped";
  row.maps.emplace_back(row.addresses, 0, row.chunks.back());
  row.grant();
  return row;
}

}  // namespace

void probe_shares_chunks(probe_site& site) {
  std::optional<mapped_row> row = exportable_row(site);
  if (!row)
    return site.answer(trait::shares_chunks, finding::no,
                       "hipMemCreate gave hipErrorNotSupported for a chunk that can be exported");
  site.during = "when a chunk was exported";
  const shareable_handle handle{row->chunks.front()};
  const bool by_value = rules_of_runtime().imports_descriptor_by_value;
  const bool same =
      shows_same_memory(site, by_value ? import_form::value : import_form::pointer, handle, *row);
  row->undo();
  site.answer(trait::shares_chunks, same, "a chunk was exported and imported",
              "a chunk was exported, and its import shows other bytes");
}

void probe_imports_by_value(probe_site& site) {
  std::optional<mapped_row> row = exportable_row(site);
  if (!row)
    return site.answer(trait::imports_by_value, finding::unknown,
                       "nothing can be exported that could be imported");
  site.during = "when a chunk was exported";
  const shareable_handle handle{row->chunks.front()};
  const bool same = shows_same_memory(site, import_form::value, handle, *row);
  row->undo();
  site.answer(trait::imports_by_value, same, "a descriptor's value was imported",
              "a descriptor's value was imported, and shows other bytes");
}

namespace {

/// Of chunks retained by their addresses. Empty if others changed free memory.
struct retained {
  std::optional<bool> kept;      // the memory is there as long as the handles
  std::optional<bool> returned;  // the memory returns after the handles' release
  bool is_same = true;           // the handles are of the mapped memory
};

retained measure_retained_chunks(probe_site& site, std::size_t count) {
  const std::size_t bytes = count * site.unit;
  const auto is_taken = [&](std::size_t before, std::size_t now) -> std::optional<bool> {
    const std::size_t less = before - std::min(before, now);
    if (now > before + bytes / 2 || less >= bytes + bytes / 2) return std::nullopt;
    return less > bytes / 2;
  };
  retained result;
  const std::size_t before = free_memory(site);
  mapped_row row = granted_row(site, count);
  result.is_same = carries_in_time(site, row.at(0), row.at(0), 90);
  site.during = "when a chunk was retained by its address";
  std::vector<physical_chunk> held;
  for (std::size_t index = 0; index < count; ++index) {
    held.push_back(retain_at(row.at(index), site.device, site.unit));
    result.is_same = result.is_same && held.back().get() == row.chunks[index].get();
  }
  row.undo();
  result.kept = is_taken(before, free_memory(site));
  if (!result.kept.value_or(false)) {
    // The handles may refer to nothing.
    for (physical_chunk& each : held) static_cast<void>(each.release());
    return result;
  }
  mapped_row again{site, 1};
  site.during = "when a chunk was mapped that had been retained";
  again.maps.emplace_back(again.addresses, 0, held.front());
  again.grant();
  const auto end = std::chrono::steady_clock::now() + longest_visibility_delay;
  bool is_seen = false;
  do is_seen = words_at(site.queue, again.at(0)) == pattern(90);
  while (!is_seen && std::chrono::steady_clock::now() < end);
  result.is_same = result.is_same && is_seen;
  again.undo();
  held.clear();
  if (const std::optional<bool> taken = is_taken(before, free_memory(site)))
    result.returned = !*taken;
  return result;
}

}  // namespace

void probe_retains_chunks(probe_site& site) {
  votes kept;
  votes returned;
  for (int round = 0; round < votes::most_rounds; ++round) {
    const retained seen = measure_retained_chunks(site, chunks_of_round(round));
    if (!seen.is_same)
      return site.answer(trait::retains_chunks, finding::no,
                         "a chunk was retained by its address, and was another one");
    kept.add(seen.kept);
    returned.add(seen.returned);
    if (kept.is_decided() && (!kept.is_yes() || returned.is_decided())) break;
  }
  const bool may_be_yes = kept.is_decided() && kept.is_yes();
  (may_be_yes ? returned : kept)
      .answer(site, trait::retains_chunks,
              "chunks that were retained by their addresses stayed until their handles were "
              "released",
              may_be_yes ? "chunks that were retained by their addresses stayed when their handles "
                           "were released too"
                         : "chunks that were retained by their addresses went with their owner");
}

namespace {

std::optional<int> open_descriptors() {
  std::error_code error;
  int count = 0;
  for (std::filesystem::directory_iterator each{"/proc/self/fd", error}, end; !error && each != end;
       each.increment(error))
    ++count;
  if (error) return std::nullopt;
  return count;
}

}  // namespace

void measure_descriptors(probe_site& site) {
  constexpr int count = 4;
  constexpr int rounds = 3;
  // The least of some rounds, because other threads may open files.
  std::optional<int> least;
  for (int round = 0; round < rounds; ++round) {
    const std::optional<int> before = open_descriptors();
    mapped_row row = granted_row(site, count);
    const std::optional<int> with = open_descriptors();
    if (!before || !with) return;
    const int taken = std::max(0, *with - *before) / count;
    least = std::min(least.value_or(taken), taken);
    row.undo();
  }
  site.found.descriptors_per_chunk = *least;
}

namespace {

template <class Call>
std::int64_t time_of(Call call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::nanoseconds{std::chrono::steady_clock::now() - start}.count();
}

/// Neighbours of the timed chunk, because calls may take longer beside many: at most 256, and as
/// many as 20 ms and a 64th of the free memory allow. None if one is refused.
mapped_row mapped_before(probe_site& site) {
  constexpr std::size_t most = 256;
  constexpr std::chrono::milliseconds patience{20};
  const std::size_t spare = site.device.free_memory() / 64 / site.unit;
  const std::size_t count = std::min(most, spare);
  const auto fill = [&](mapped_row& row) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (row.size() < count && std::chrono::steady_clock::now() < end) row.add();
  };
  {
    mapped_row row{site, count + 1};
    if (!refusal_of([&] { fill(row); })) return row;
  }
  return mapped_row{site, 1};
}

}  // namespace

void measure_costs(probe_site& site) {
  constexpr std::size_t rounds = 7;
  constexpr std::array places{&call_costs::reserve,   &call_costs::free,  &call_costs::create,
                              &call_costs::map,       &call_costs::unmap, &call_costs::release,
                              &call_costs::set_access};
  std::array<std::array<std::int64_t, rounds>, places.size()> times{};
  mapped_row row = mapped_before(site);
  // Otherwise only all mappings together can be granted.
  const bool is_granted_alone =
      site.found.has(trait::tail_access) || site.found.has(trait::equal_access);
  const std::size_t offset = row.size() * site.unit;
  site.during = "when calls were timed";
  for (std::size_t round = 0; round < rounds; ++round) {
    address_reservation addresses;
    physical_chunk chunk;
    mapping map;
    std::size_t call = 0;
    const auto note = [&](std::int64_t time) { times[call++][round] = time; };
    note(time_of([&] { addresses = address_reservation{site.unit}; }));
    note(time_of([&] { addresses.free(); }));
    note(time_of([&] { chunk = physical_chunk{site.device, site.unit}; }));
    note(time_of([&] { map = mapping{row.addresses, offset, chunk}; }));
    const std::int64_t granted = time_of([&] {
      set_access(is_granted_alone ? map.get() : row.addresses.get(),
                 is_granted_alone ? map.bytes() : offset + map.bytes(),
                 {site.device, access_right::read_write});
    });
    note(time_of([&] { map.unmap(); }));
    note(time_of([&] { chunk = physical_chunk{}; }));
    note(granted);
  }
  row.undo();
  for (std::size_t call = 0; call < places.size(); ++call) {
    std::sort(times[call].begin(), times[call].end());
    // Load only adds to times. Zero would mean not measured.
    site.found.costs.*places[call] = std::max<std::int64_t>(times[call][rounds / 4], 1);
  }
}

}  // namespace hipvmm::detail
