// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/capability.hpp>

#include <algorithm>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "vmm/capability_record.hpp"

namespace hipvmm {
namespace {

struct trait_rule {
  std::string_view name;
  bool when_unknown;  // what the library does not know counts as this
};

constexpr std::array<trait_rule, trait_count> rules{{
    {"virtual_memory", true},
    {"several_reservations", true},
    {"unmaps_each", true},
    {"unmaps_many", false},
    {"tail_access", true},
    {"base_access", true},
    {"tells_failed_map", true},
    {"visible_at_once", true},
    {"crosses_chunks", true},
    {"returns_memory", true},
    {"returns_with_addresses", true},
    {"coherent_aliases", false},
    {"keeps_read_only", false},
    {"peer_access", true},
    {"shares_chunks", true},
    {"imports_by_value", true},
    {"host_access", false},
}};

constexpr std::size_t index(trait which) noexcept { return static_cast<std::size_t>(which); }

}  // namespace

bool capability::record::has(trait which) const noexcept {
  const finding found = findings[index(which)];
  return found == finding::unknown ? rules[index(which)].when_unknown : found == finding::yes;
}

void capability::record::conclude() {
  quirks.clear();
  why_fallback.clear();
  for (const trait needed : {trait::virtual_memory, trait::several_reservations, trait::unmaps_each,
                             trait::crosses_chunks}) {
    if (!has(needed) && why_fallback.empty())
      why_fallback = std::string{name_of(needed)} + ": " + reasons[index(needed)];
  }
  if (!has(trait::tail_access) && !has(trait::base_access) && why_fallback.empty())
    why_fallback = "base_access: " + reasons[index(trait::base_access)];
  if (!why_fallback.empty()) {
    path = memory_path::fallback;
    return;
  }
  const auto add = [this](quirk which, bool in_force) {
    if (in_force) quirks.push_back(which);
  };
  add(quirk::access_from_base, !has(trait::tail_access));
  add(quirk::verify_maps, !has(trait::tells_failed_map));
  add(quirk::settle_mappings, !has(trait::visible_at_once));
  add(quirk::renew_addresses, !has(trait::returns_memory) && has(trait::returns_with_addresses));
  add(quirk::no_aliases, !has(trait::coherent_aliases));
  add(quirk::import_by_pointer, has(trait::shares_chunks) && !has(trait::imports_by_value));
  add(quirk::larger_chunks, descriptors_per_chunk > 0);
  path = quirks.empty() ? memory_path::vmm : memory_path::vmm_with_quirks;
}

finding capability::operator[](trait which) const noexcept {
  return record_->findings[index(which)];
}
bool capability::has(trait which) const noexcept { return record_->has(which); }
const std::string& capability::reason(trait which) const noexcept {
  return record_->reasons[index(which)];
}
memory_path capability::path() const noexcept { return record_->path; }
const std::vector<quirk>& capability::quirks() const noexcept { return record_->quirks; }
bool capability::needs(quirk which) const noexcept {
  return std::find(quirks().begin(), quirks().end(), which) != quirks().end();
}
const std::string& capability::why_fallback() const noexcept { return record_->why_fallback; }
std::size_t capability::minimum_granularity() const noexcept {
  return record_->minimum_granularity;
}
std::size_t capability::recommended_granularity() const noexcept {
  return record_->recommended_granularity;
}
int capability::descriptors_per_chunk() const noexcept { return record_->descriptors_per_chunk; }
std::chrono::nanoseconds capability::settle_time() const noexcept { return record_->settle_time; }
const call_costs& capability::costs() const noexcept { return record_->costs; }
const std::string& capability::subject() const noexcept { return record_->subject; }
const std::string& capability::origin() const noexcept { return record_->origin; }

std::string_view name_of(trait which) noexcept { return rules[index(which)].name; }

std::string_view name_of(finding which) noexcept {
  constexpr std::array<std::string_view, 3> names{"unknown", "no", "yes"};
  return names[static_cast<std::size_t>(which)];
}

std::string_view name_of(memory_path which) noexcept {
  constexpr std::array<std::string_view, 3> names{"vmm", "vmm_with_quirks", "fallback"};
  return names[static_cast<std::size_t>(which)];
}

std::string_view name_of(quirk which) noexcept {
  constexpr std::array<std::string_view, 7> names{
      "access_from_base", "verify_maps",       "settle_mappings", "renew_addresses",
      "no_aliases",       "import_by_pointer", "larger_chunks"};
  return names[static_cast<std::size_t>(which)];
}

std::string_view description_of(quirk which) noexcept {
  constexpr std::array<std::string_view, 7> texts{};
  return texts[static_cast<std::size_t>(which)];
}

capability capability_of(device_ref device) {
  require_device(device);
  auto found = std::make_shared<capability::record>();
  const bool offered = device.supports_virtual_memory();
  found->findings[index(trait::virtual_memory)] = offered ? finding::yes : finding::no;
  if (offered) {
    const allocation_granularity unit = granularity_of(device);
    found->minimum_granularity = unit.minimum;
    found->recommended_granularity = unit.recommended;
    found->findings[index(trait::coherent_aliases)] = finding::yes;
  } else {
    found->reasons[index(trait::virtual_memory)] = "HIP's attribute says 0";
  }
  found->conclude();
  return capability{std::move(found)};
}

capability probe_capability(device_ref device, const copy_kernel&) { return capability_of(device); }

}  // namespace hipvmm
