// SPDX-License-Identifier: MIT
#include "strategy/memory_strategy.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>

namespace hipvmm::detail {
namespace {

using record_list = memory_strategy::record_list;

record_list::const_iterator first_with(const record_list& owners, quirk which) noexcept {
  return std::ranges::find_if(owners,
                              [which](const auto& each) { return each.second.needs(which); });
}

bool any_needs(const record_list& owners, quirk which) noexcept {
  return first_with(owners, which) != owners.end();
}

bool all_have(const record_list& owners, trait which) noexcept {
  return std::ranges::all_of(owners, [which](const auto& each) { return each.second.has(which); });
}

ability ability_of(const std::pair<device_ref, capability>& owner, trait which, const char* lack) {
  const auto& [device, found] = owner;
  return found.has(which) ? ability{} : ability{device, lack, found.reason(which)};
}

ability ability_of_all(const record_list& owners, trait which, const char* lack) {
  for (const auto& each : owners)
    if (const ability its = ability_of(each, which, lack); !its) return its;
  return {};
}

ability returns_memory_of(const record_list& owners) {
  for (const auto& [device, found] : owners)
    if (!found.has(trait::returns_memory) && !found.needs(quirk::re_reserve))
      return {device, "does not get released memory back",
              found.reason(trait::returns_with_addresses)};
  return {};
}

rights_setting rights_of(const record_list& owners) {
  const auto refusing = first_with(owners, quirk::access_from_base);
  const auto& [device, found] = refusing != owners.end() ? *refusing : owners.front();
  return {refusing == owners.end(), all_have(owners, trait::base_access), device,
          &found.reason(trait::tail_access)};
}

std::chrono::nanoseconds longest_delay(const record_list& owners) noexcept {
  std::chrono::nanoseconds result{};
  for (const auto& each : owners) result = std::max(result, each.second.visibility_delay());
  return result;
}

call_prices dearest_prices(const record_list& owners) noexcept {
  call_prices result;
  for (const auto& each : owners) result.raise_to(call_prices{each.second.costs()});
  return result;
}

}  // namespace

void ability::require(const char* what, const char* advice) const {
  if (*this) return;
  throw unsupported{std::string{what} + ": device " + std::to_string(without_.ordinal()) + ' ' +
                    lack_ + ": " + reason() + advice};
}

memory_strategy::memory_strategy(record_list owners)
    : owners_{std::move(owners)},
      pins_memory{any_needs(owners_, quirk::re_reserve)},
      returns_memory{returns_memory_of(owners_)},
      rights{rights_of(owners_)},
      mapping_check{any_needs(owners_, quirk::verify_maps) ? map_check::verified
                                                           : map_check::trusted},
      visible_after{longest_delay(owners_)},
      second_address{ability_of_all(owners_, trait::coherent_aliases,
                                    "does not show the same bytes at two addresses of one chunk")},
      extends_in_place{!any_needs(owners_, quirk::one_reservation)},
      host_chunks{ability_of(owners_.front(), trait::host_chunks,
                             "cannot use chunks in memory of the host")},
      host_node_chunks{ability_of(owners_.front(), trait::host_node_chunks,
                                  "cannot use chunks in memory of a NUMA node of the host")},
      uncached_chunks{ability_of_all(owners_, trait::uncached_chunks, "makes no uncached chunks")},
      retained_chunks{ability_of_all(owners_, trait::retains_chunks,
                                     "gives no reference to a chunk by its address")},
      descriptors_per_chunk{
          owners_.front().second.needs(quirk::larger_chunks)
              ? static_cast<std::size_t>(owners_.front().second.descriptors_per_chunk())
              : 0},
      host_reads{std::ranges::all_of(
          owners_,
          [](const auto& each) { return each.second[trait::host_access] == finding::yes; })},
      peer_copies{
          ability_of_all(owners_, trait::peer_copies, "takes no copy of a peer without a right")},
      hip_pools_keep_order{all_have(owners_, trait::pools_reuse_in_order) &&
                           all_have(owners_, trait::pool_frees_return)},
      prices{dearest_prices(owners_)} {}

memory_strategy::memory_strategy(device_ref owner)
    : memory_strategy{record_list{{owner, capability_of(owner)}}} {}

bool memory_strategy::has(device_ref owner) const noexcept {
  return std::ranges::any_of(owners_, [owner](const auto& each) { return each.first == owner; });
}

bool memory_strategy::pins(device_ref owner) const noexcept {
  return pins_memory && std::ranges::any_of(owners_, [owner](const auto& each) {
           return each.first == owner && each.second.needs(quirk::re_reserve);
         });
}

bool memory_strategy::unmaps_runs(device_ref owner) const noexcept {
  return std::ranges::any_of(owners_, [owner](const auto& each) {
    return each.first == owner && each.second.has(trait::unmaps_many);
  });
}

}  // namespace hipvmm::detail
