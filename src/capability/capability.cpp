// SPDX-License-Identifier: MIT
#include <hipvmm/capability/capability.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "capability/capability.hpp"
#include "vmm/shareable_handle.hpp"

namespace hipvmm {
namespace {

struct trait_rule {
  std::string_view name;
  bool when_unknown;  // an unknown property counts as this
};

constexpr std::array<trait_rule, trait_count> rules{{
    {"virtual_memory", true},
    {"several_reservations", true},
    {"unmaps_each", true},
    {"unmaps_many", false},
    {"tail_access", true},
    {"base_access", true},
    {"equal_access", true},
    {"reports_failed_map", true},
    {"visible_at_once", true},
    {"crosses_chunks", true},
    {"crosses_reservations", false},
    {"returns_memory", true},
    {"returns_with_addresses", true},
    {"coherent_aliases", false},
    {"keeps_read_only", false},
    {"peer_access", true},
    {"peer_copies", true},
    {"shares_chunks", true},
    {"imports_by_value", true},
    {"host_access", false},
    {"counts_ending_streams", false},
    {"free_waits", false},
    {"host_chunks", false},
    {"retains_chunks", false},
    {"uncached_chunks", false},
    {"host_node_chunks", false},
    {"pools_reuse_in_order", false},
    {"pool_frees_return", false},
}};

// How long mappings of gfx1201 were seen to be missed, with a margin, for a device that is assumed
// to be like it (ROCm/rocm-systems#11693: 1 to 2 ms).
constexpr std::chrono::milliseconds usual_visibility_delay{4};

}  // namespace

void capability::record::set(trait which, finding what, std::string reason, persistence holds) {
  findings[index_of(which)] = what;
  reasons[index_of(which)] = std::move(reason);
  persistences[index_of(which)] = holds;
}

void capability::record::set_until(trait which, finding what, std::string reason,
                                   std::int64_t seconds) {
  set(which, what, std::move(reason), persistence::dated);
  until[index_of(which)] = seconds;
}

std::int64_t detail::seconds_now() noexcept {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool capability::record::is_open() const noexcept {
  if (findings[index_of(trait::virtual_memory)] == finding::no) return false;
  return std::ranges::find(persistences, persistence::open) != persistences.end();
}

bool capability::record::has(trait which) const noexcept {
  const finding found = findings[index_of(which)];
  return found == finding::unknown ? rules[index_of(which)].when_unknown : found == finding::yes;
}

void capability::record::conclude() {
  quirks.clear();
  why_fallback.clear();
  for (const trait needed : {trait::virtual_memory, trait::several_reservations, trait::unmaps_each,
                             trait::crosses_chunks}) {
    if (!has(needed) && why_fallback.empty())
      why_fallback = std::string{name_of(needed)} + ": " + reasons[index_of(needed)];
  }
  for (const trait way_out : {trait::base_access, trait::equal_access}) {
    if (!has(trait::tail_access) && !has(way_out) && why_fallback.empty())
      why_fallback = std::string{name_of(way_out)} + ": " + reasons[index_of(way_out)];
  }
  if (!why_fallback.empty()) {
    path = memory_path::fallback;
    visibility_delay = {};
    return;
  }
  const auto add = [this](quirk which, bool in_force) {
    if (in_force) quirks.push_back(which);
  };
  add(quirk::access_from_base, !has(trait::tail_access));
  add(quirk::verify_maps, !has(trait::reports_failed_map));
  add(quirk::wait_until_visible, !has(trait::visible_at_once));
  add(quirk::re_reserve, !has(trait::returns_memory) && has(trait::returns_with_addresses));
  add(quirk::no_aliases, !has(trait::coherent_aliases));
  add(quirk::import_by_pointer, has(trait::shares_chunks) && !has(trait::imports_by_value));
  add(quirk::larger_chunks, descriptors_per_chunk > 0);
  add(quirk::one_reservation, !has(trait::crosses_reservations));
  if (has(trait::visible_at_once)) {
    visibility_delay = {};
  } else if (visibility_delay.count() == 0) {
    visibility_delay = usual_visibility_delay;
  }
  path = quirks.empty() ? memory_path::vmm : memory_path::vmm_with_quirks;
}

finding capability::operator[](trait which) const noexcept {
  return record_->findings[index_of(which)];
}
bool capability::has(trait which) const noexcept { return record_->has(which); }
const std::string& capability::reason(trait which) const noexcept {
  return record_->reasons[index_of(which)];
}
memory_path capability::path() const noexcept { return record_->path; }
const std::vector<quirk>& capability::quirks() const noexcept { return record_->quirks; }
bool capability::needs(quirk which) const noexcept {
  return std::ranges::find(quirks(), which) != quirks().end();
}
const std::string& capability::why_fallback() const noexcept { return record_->why_fallback; }
std::size_t capability::minimum_granularity() const noexcept {
  return record_->minimum_granularity;
}
std::size_t capability::recommended_granularity() const noexcept {
  return record_->recommended_granularity;
}
int capability::descriptors_per_chunk() const noexcept { return record_->descriptors_per_chunk; }
std::chrono::nanoseconds capability::visibility_delay() const noexcept {
  return record_->visibility_delay;
}
const call_costs& capability::costs() const noexcept { return record_->costs; }
const std::string& capability::fingerprint() const noexcept { return record_->fingerprint; }
const std::string& capability::origin() const noexcept { return record_->origin; }

std::string_view name_of(trait which) noexcept { return rules[index_of(which)].name; }

std::string_view name_of(finding which) noexcept {
  constexpr std::array<std::string_view, 3> names{"unknown", "no", "yes"};
  return names[static_cast<std::size_t>(which)];
}

std::string_view name_of(memory_path which) noexcept {
  constexpr std::array<std::string_view, 3> names{"vmm", "vmm_with_quirks", "fallback"};
  return names[static_cast<std::size_t>(which)];
}

std::string_view name_of(quirk which) noexcept {
  constexpr std::array<std::string_view, 8> names{
      "access_from_base", "verify_maps",       "wait_until_visible", "re_reserve",
      "no_aliases",       "import_by_pointer", "larger_chunks",      "one_reservation"};
  return names[static_cast<std::size_t>(which)];
}

std::string_view description_of(quirk which) noexcept {
  // Each: the action, the failure without it, the record of that, the condition to drop it.
  constexpr std::array<std::string_view, 8> texts{
      "Rights are set for all mappings at once, or one by one where all have one size, because "
      "ROCm 7.0 to 7.2 refuse a mapping unless some of its neighbours have its size together "
      "(ROCm/rocm-systems#6977, #2516); goes when no supported release fails the probe "
      "tail_access.",
      "After each map HIP is asked whether anything is mapped there, because ROCm before 7.14 "
      "reports success for maps that failed (ROCm/rocm-systems#7685); goes when no supported "
      "release fails the probe reports_failed_map.",
      "New mappings are used only after visibility_delay, because work that is submitted earlier "
      "reads zeros and loses what it writes, as on gfx1201 (ROCm/rocm-systems#11693); goes when no "
      "supported device fails the probe visible_at_once.",
      "An emptied reservation is freed and taken again, because ROCm on Linux keeps memory until "
      "the addresses are freed (ROCm/legacy-rocm-build#6021, mended by ROCm/rocm-systems#4363); "
      "goes when no supported release fails the probe returns_memory.",
      "No chunk is used at two addresses at a time, because RDNA does not keep its L1 caches "
      "coherent between them (ROCm/hip#3728); stays as long as such devices are supported.",
      "Import gets a pointer to the descriptor, because ROCm before 7.1 follows the descriptor's "
      "value as a pointer and crashes (ROCm/rocm-systems#11020); goes when 7.1 is the oldest "
      "supported release.",
      "More slack is taken with each chunk while descriptors run short, because each chunk holds "
      "one on ROCm 7.14 (ROCm/rocm-systems#10604, mended in ROCm 10); goes when no supported "
      "release has descriptors_per_chunk above 0.",
      "A region that grows past its maximum moves to one larger reservation instead of taking a "
      "second one right behind its own, because AMD's HIP refuses copies and fills that span two; "
      "goes when no supported release fails the probe crosses_reservations."};
  return texts[static_cast<std::size_t>(which)];
}

physical_chunk import_chunk(const shareable_handle& handle, device_ref device) {
  // The trait and not quirk::import_by_pointer, which is in force only if sharing was seen to
  // work: a runtime that takes pointers crashes on a value.
  const bool by_value = capability_of(device).has(trait::imports_by_value);
  return detail::import_chunk_as(
      by_value ? detail::import_form::value : detail::import_form::pointer, handle, device);
}

}  // namespace hipvmm
