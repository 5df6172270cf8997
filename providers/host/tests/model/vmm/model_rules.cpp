// SPDX-License-Identifier: MIT
#include "model_rules.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace hipvmm::test::model {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t large_page = std::size_t{2} << 20U;

// Each column is the release before it with changes, so that a line stands for a change in AMD's
// runtime.

constexpr model_rules rocm_6_2() {
  model_rules rules;
  rules.name = "rocm-6.2";
  rules.minimum_granularity = page;
  rules.recommended_granularity = page;
  rules.reserve_bad_size = hipErrorOutOfMemory;
  rules.reserve_honours_alignment = false;
  rules.free_checks_size = false;
  rules.free_while_mapped = hipSuccess;
  rules.create_bad_device = hipErrorInvalidValue;
  rules.imports_any_type = true;
  rules.imports_to_current_device = true;
  rules.retain_adds_reference = false;
  rules.memory_stays_until_addresses_go = true;
  rules.map_hides_failure = true;
  rules.unmap_checks_size = false;
  rules.unmap_of_several_keeps_reservation = true;
  rules.access_without_link = hipErrorInvalidValue;
  rules.host_shares_rights = false;
  rules.disable_without_link = hipErrorInvalidDevice;
  rules.copies_cross_reservations = false;
  rules.fills_need_access = false;
  rules.fills_pinned_on_host = true;
  rules.frees_inside = true;
  rules.fill_size_wraps = true;
  rules.copy_checks_kind = false;
  rules.unknown_kinds = model_rules::unknown_kind::refused_in_streams_of_no_bytes_too;
  rules.peer_copy_checks_devices = false;
  rules.owner_copies = true;
  rules.access_checks_location = false;
  rules.access_applies_until_bad = true;
  rules.access_may_end_inside = true;
  rules.descriptors = model_rules::convention::pointer;
  rules.crashes = {.unknown_address_free = true,
                   .unknown_unmap = true,
                   .unknown_retain = true,
                   .stale_handle = true,
                   .null_export = true,
                   .misaligned_fill = true,
                   .descriptor_by_value = true,
                   .work_without_link = true};
  return rules;
}

constexpr model_rules rocm_5_7() {
  model_rules rules = rocm_6_2();
  rules.name = "rocm-5.7";
  rules.has_virtual_memory = false;
  rules.has_shareable_handles = false;
  rules.create_unit = 1024;
  rules.unknown_kinds = model_rules::unknown_kind::taken;
  // Retaining memory of hipMalloc gives a handle of nothing.
  rules.crashes = {.unknown_retain = true,
                   .stale_handle = true,
                   .misaligned_fill = true,
                   .work_without_link = true};
  return rules;
}

constexpr model_rules rocm_6_4() {
  model_rules rules = rocm_6_2();
  rules.name = "rocm-6.4";
  rules.free_while_mapped = hipErrorUnknown;
  return rules;
}

constexpr model_rules rocm_7_1() {
  model_rules rules = rocm_6_4();
  rules.name = "rocm-7.1";
  rules.reserve_bad_size = hipErrorInvalidValue;
  rules.create_bad_device = hipErrorInvalidDevice;
  rules.takes_uncached = true;
  rules.retain_adds_reference = true;
  rules.unmap_checks_size = true;
  rules.unmap_of_several_keeps_reservation = false;
  rules.access_checks_location = true;
  rules.access_may_end_inside = false;
  rules.access_sums_from_first = true;
  rules.owner_copies = false;
  rules.peer_access_grants_mappings = true;
  rules.fills_pinned_on_host = false;
  rules.descriptors = model_rules::convention::value;
  rules.crashes = {.stale_handle = true, .misaligned_fill = true, .work_without_link = true};
  return rules;
}

constexpr model_rules rocm_7_2() {
  model_rules rules = rocm_7_1();
  rules.name = "rocm-7.2";
  rules.creates_on_current_device = true;
  rules.host = model_rules::host_place::any_memory;
  rules.retain_adds_reference = false;
  rules.crashes.unknown_address_free = true;
  rules.crashes.unknown_retain = true;
  rules.crashes.pageable_peer_copy = true;
  return rules;
}

constexpr model_rules rocm_7_14() {
  model_rules rules = rocm_7_1();
  rules.name = "rocm-7.14";
  rules.recommended_granularity = large_page;
  rules.host = model_rules::host_place::any_memory;
  rules.imports_to_current_device = false;
  rules.memory_stays_until_addresses_go = false;
  rules.map_hides_failure = false;
  rules.unmap_waits_for_work = true;
  rules.access_sums_from_first = false;
  rules.late_grant_corrupts = true;
  return rules;
}

constexpr model_rules rocm_10() {
  model_rules rules = rocm_7_14();
  rules.name = "rocm-10";
  rules.host_nodes = 2;
  return rules;
}

constexpr model_rules cuda_13() {
  model_rules rules;
  rules.name = "cuda-13";
  rules.minimum_granularity = large_page;
  rules.recommended_granularity = large_page;
  rules.host = model_rules::host_place::own_memory;
  rules.host_nodes = 2;
  rules.maps_whole_chunks = true;
  rules.unmap_passes_holes = true;
  rules.host_shares_rights = false;
  rules.descriptors = model_rules::convention::value;
  rules.foreign_descriptor = hipErrorUnknown;
  rules.null_is_descriptor_zero = true;
  return rules;
}

constexpr std::array columns{model_rules{}, rocm_5_7(),  rocm_6_2(), rocm_6_4(), rocm_7_1(),
                             rocm_7_2(),    rocm_7_14(), rocm_10(),  cuda_13()};

}  // namespace

const model_rules& rules_of(std::string_view name) {
  const auto* const found = std::find_if(columns.begin(), columns.end(),
                                         [name](const model_rules& r) { return r.name == name; });
  if (found != columns.end()) return *found;
  std::string names;
  for (const model_rules& each : columns) names.append(" ").append(each.name);
  throw std::invalid_argument{"the model has no rules for '" + std::string{name} +
                              "'; it has them for:" + names};
}

}  // namespace hipvmm::test::model
