// SPDX-License-Identifier: MIT
#include "capability/mapped_row.hpp"

#include <hip/hip_runtime_api.h>

#include <numeric>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/vmm/access.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

finished_work::~finished_work() {
  report_exceptions([this] { queue_.synchronize(); });
}

mapped_row::mapped_row(probe_site& site, std::size_t most)
    : mapped_row{site, (site.during = "when addresses were reserved",
                        address_reservation{most * site.unit})} {}

mapped_row::mapped_row(probe_site& site, address_reservation reserved)
    : addresses{std::move(reserved)}, site_{site} {
  chunks.reserve(addresses.bytes() / site.unit);
  maps.reserve(addresses.bytes() / site.unit);
}

mapped_row::~mapped_row() {
  if (!maps.empty()) const finished_work before_the_end{site_.queue};
}

void mapped_row::add() { add_at(maps.size(), 1); }

void mapped_row::add_at(std::size_t at_unit, std::size_t units) {
  site_.during = plain_chunk;
  chunks.emplace_back(site_.device, units * site_.unit);
  site_.during = "when a chunk was mapped";
  maps.emplace_back(addresses, at_unit * site_.unit, chunks.back());
}

void mapped_row::grant_alone(std::size_t index) const {
  set_access(maps[index].get(), maps[index].bytes(), {site_.device, access_right::read_write});
}

void mapped_row::grant() {
  site_.during = "when the owner was granted mappings";
  const access_desc own{site_.device, access_right::read_write};
  try {
    for (const mapping& each : maps) set_access(each.get(), each.bytes(), own);
  } catch (const hip_error& error) {
    if (error.code() != hipErrorInvalidValue || maps.size() < 2) throw;
    set_access(addresses.get(), maps.size() * site_.unit, own);
  }
}

void mapped_row::unmap() {
  site_.during = "when mappings were undone";
  for (mapping& each : maps) each.unmap();
  maps.clear();
  chunks.clear();
}

void mapped_row::undo() {
  unmap();
  site_.during = "when addresses were freed, with nothing mapped in them any more";
  addresses.free();
}

mapped_row granted_row(probe_site& site, std::size_t count) {
  mapped_row row{site, count};
  while (row.size() < count) row.add();
  row.grant();
  return row;
}

std::vector<word> pattern(word seed) {
  std::vector<word> words(word_count);
  // No word is zero, because missing memory reads as zero.
  std::iota(words.begin(), words.end(), seed * 65536 + 1);
  return words;
}

std::vector<word> words_at(const stream& queue, const void* from) {
  std::vector<word> words(word_count);
  copy(queue, words.data(), from, word_count * sizeof(word));
  return words;
}

bool carries(const probe_site& site, void* to, const void* from, word seed) {
  const std::vector<word> sent = pattern(seed);
  copy(site.queue, to, sent.data(), word_count * sizeof(word));
  return words_at(site.queue, from) == sent;
}

bool carries_in_time(const probe_site& site, void* to, const void* from, word seed) {
  const auto end = std::chrono::steady_clock::now() + longest_visibility_delay;
  for (;;) {
    // One try begins after the end, even if an earlier one was delayed.
    const bool is_last = std::chrono::steady_clock::now() >= end;
    if (carries(site, to, from, seed)) return true;
    if (is_last) return false;
  }
}

}  // namespace hipvmm::detail
