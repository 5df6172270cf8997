// SPDX-License-Identifier: MIT
#include <hipvmm/capability/capability.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "capability/capability.hpp"
#include "vmm/shareable_handle.hpp"

namespace hipvmm {
namespace {

struct trait_rule {
  trait which;
  std::string_view name;
  bool when_unknown;
};
#define HIPVMM_TRAIT(name, when_unknown, ...) {trait::name, #name, when_unknown},
constexpr trait_rule rules[] = {
#include "capability/traits.def"
};

struct quirk_rule {
  quirk which;
  std::string_view name, description;
};
#define HIPVMM_QUIRK(name, condition, description) {quirk::name, #name, description},
constexpr quirk_rule quirk_rules[] = {
#include "capability/traits.def"
};

template <class Rule, std::size_t Count>
constexpr bool in_order(const Rule (&all)[Count]) {
  for (std::size_t i = 0; i < Count; ++i)
    if (static_cast<std::size_t>(all[i].which) != i) return false;
  return true;
}
static_assert(in_order(rules) && std::size(rules) == trait_count && in_order(quirk_rules));

// For a device without a measured delay: twice the time that gfx1201 missed new mappings
// (ROCm/rocm-systems#11693: 1 to 2 ms).
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
#define HIPVMM_QUIRK(name, condition, ...) \
  if (condition) quirks.push_back(quirk::name);
#include "capability/traits.def"
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
  return quirk_rules[static_cast<std::size_t>(which)].name;
}
std::string_view description_of(quirk which) noexcept {
  return quirk_rules[static_cast<std::size_t>(which)].description;
}

physical_chunk import_chunk(const shareable_handle& handle, device_ref device) {
  // Not quirk::import_by_pointer, which needs a device that shares chunks: a runtime that takes
  // pointers crashes on a value.
  const bool by_value = capability_of(device).has(trait::imports_by_value);
  return detail::import_chunk_as(
      by_value ? detail::import_form::value : detail::import_form::pointer, handle, device);
}

}  // namespace hipvmm
