// SPDX-License-Identifier: MIT
// Probes of chunks, addresses and mappings.
#include <hip/hip_runtime_api.h>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "vmm/mapped_row.hpp"
#include "vmm/probe.hpp"
#include "vmm/unmap_range.hpp"

namespace hipvmm::detail {

void probe_virtual_memory(probe_site& site) {
  mapped_row row = granted_row(site, 1);
  site.during = "when mapped memory was written and read by copies";
  if (!carries_in_time(site, row.at(0), row.at(0), 1))
    return site.answer(trait::virtual_memory, finding::no,
                       "what was copied to mapped memory was not read back within " +
                           std::to_string(longest_settling.count()) + " ms");
  row.undo();
  site.answer(trait::virtual_memory, finding::yes,
              "a chunk of " + format_bytes(site.unit) + " was mapped, written and read back");
}

void probe_several_reservations(probe_site& site) {
  mapped_row first = granted_row(site, 1);
  mapped_row second = granted_row(site, 1);
  site.during = "when two reservations were used at a time";
  const bool seen = carries_in_time(site, first.at(0), first.at(0), 2) &&
                    carries_in_time(site, second.at(0), second.at(0), 3) &&
                    words_at(site.queue, first.at(0)) == pattern(2);
  second.undo();
  first.undo();
  if (seen) {
    site.answer(trait::several_reservations, finding::yes,
                "two reservations were written and read at a time");
  } else {
    site.answer(trait::several_reservations, finding::no,
                "of two reservations one did not hold what was copied to it");
  }
}

void probe_unmaps_each(probe_site& site) {
  mapped_row row = granted_row(site, 3);
  site.during = "when the middle one of three neighbouring mappings was undone";
  row.maps[1].unmap();
  site.during = "when a mapping was used whose neighbour had been undone";
  const bool seen = carries_in_time(site, row.at(0), row.at(0), 4) &&
                    carries_in_time(site, row.at(2), row.at(2), 5);
  row.undo();
  if (seen) {
    site.answer(trait::unmaps_each, finding::yes,
                "three neighbouring mappings were undone one by one and their addresses freed");
  } else {
    site.answer(trait::unmaps_each, finding::no,
                "a mapping lost its bytes when its neighbour was undone");
  }
}

namespace {

/// Whether the addresses of `base` can be had again: freed ones as a rule can.
bool is_to_be_had_again(void* base, std::size_t bytes) {
  const address_reservation again{bytes, 0, base};
  return again.get() == base;
}

}  // namespace

void probe_unmaps_many(probe_site& site) {
  constexpr std::size_t count = 3;
  const std::size_t bytes = count * site.unit;
  mapped_row alone = granted_row(site, count);
  void* base = alone.addresses.get();
  alone.undo();
  site.during = "when addresses were reserved again";
  const bool tells = is_to_be_had_again(base, bytes);

  mapped_row row = granted_row(site, count);
  base = row.addresses.get();
  site.during = "when three neighbouring mappings were undone by one call";
  unmap_range(base, bytes);
  for (mapping& each : row.maps) static_cast<void>(each.release());
  site.during = "when addresses were freed whose three mappings had been undone by one call";
  row.addresses.free();
  site.during = "when addresses were reserved again";
  // ROCm 6.2 says that it freed them, and has not (ROCm/ROCR-Runtime#285).
  if (tells && !is_to_be_had_again(base, bytes))
    return site.answer(trait::unmaps_many, finding::no,
                       "addresses whose three mappings had been undone by one call were freed, and "
                       "are not to be had again as others are");
  site.answer(trait::unmaps_many, finding::yes,
              "three neighbouring mappings were undone by one call and their addresses freed");
}

namespace {

void add_and_grant_alone(probe_site& site, mapped_row& row) {
  row.add();
  site.during = row.size() == 1 ? "when the first mapping of a reservation was granted"
                                : "when a mapping right behind another was granted by itself";
  set_access(row.maps.back().get(), row.maps.back().bytes(),
             {site.device, access_right::read_write});
}

}  // namespace

void probe_tail_access(probe_site& site) {
  // As vectors grow: several at a time. Some releases refuse only then, and not always
  // (ROCm/rocm-systems#6977), so there are a few tries.
  constexpr std::size_t count = 4;
  mapped_row first{site, count};
  mapped_row second{site, count};
  bool seen = true;
  for (std::size_t i = 0; i < count; ++i) {
    for (mapped_row* const row : {&first, &second}) {
      add_and_grant_alone(site, *row);
      site.during = "when a mapping right behind another, granted by itself, was used";
      seen = seen && carries_in_time(site, row->at(i), row->at(i), static_cast<word>(6 + i));
    }
  }
  second.undo();
  first.undo();
  if (seen) {
    site.answer(trait::tail_access, finding::yes,
                "six mappings right behind others were granted by themselves");
  } else {
    site.answer(trait::tail_access, finding::no,
                "a mapping right behind another was granted by itself and did not hold what was "
                "copied to it");
  }
}

void probe_base_access(probe_site& site) {
  constexpr std::size_t count = 4;
  mapped_row row{site, count};
  bool seen = true;
  while (row.size() < count) {
    row.add();
    if (row.size() == 1) continue;
    site.during = "when all of " + std::to_string(row.size()) +
                  " neighbouring mappings were granted by one call";
    set_access(row.addresses.get(), row.size() * site.unit,
               {site.device, access_right::read_write});
    site.during = "when neighbouring mappings were used that were granted by one call";
    const std::size_t last = row.size() - 1;
    seen = seen && carries_in_time(site, row.at(0), row.at(0), 10) &&
           carries_in_time(site, row.at(last), row.at(last), 11);
  }
  row.undo();
  if (seen) {
    site.answer(trait::base_access, finding::yes,
                "two, three and four neighbouring mappings were granted by one call");
  } else {
    site.answer(trait::base_access, finding::no,
                "neighbouring mappings were granted by one call and did not hold what was copied "
                "to them");
  }
}

void probe_tells_failed_map(probe_site& site) {
  mapped_row row = granted_row(site, 1);
  site.during = "when a chunk was created";
  const physical_chunk other{site.device, site.unit};
  try {
    mapping wrong{row.addresses, 0, other};
    // There is but one mapping, and the row undoes it.
    static_cast<void>(wrong.release());
  } catch (const hip_error& error) {
    if (error.code() == hipErrorOutOfMemory) throw;
    row.undo();
    return site.answer(trait::tells_failed_map, finding::yes,
                       std::string{"hipMemMap gave "} + error_name(error.code()) +
                           " where something was mapped already");
  }
  row.undo();
  site.answer(trait::tells_failed_map, finding::no,
              "hipMemMap reported success where something was mapped already");
}

}  // namespace hipvmm::detail
