// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_placement.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/vmm/physical_chunk.hpp>
#include "vmm/chunk_placement.hpp"

namespace hipvmm {

chunk_placement chunk_placement::striped(std::vector<device_ref> devices,
                                         std::size_t stripe_bytes) {
  if (devices.empty())
    throw std::invalid_argument{
        "chunk_placement::striped: no device is named; name at least one, or use one_device()"};
  for (const device_ref each : devices) {
    require_device(each);
    const std::size_t unit = granularity_of(each).minimum;
    if (stripe_bytes == 0 || stripe_bytes % unit != 0)
      throw std::invalid_argument{
          "chunk_placement::striped: a stripe of " + std::to_string(stripe_bytes) +
          " bytes; it must be a multiple of the granularity of device " +
          std::to_string(each.ordinal()) + ", " + std::to_string(unit) + " bytes, and not zero"};
  }
  chunk_placement result;
  result.devices_ = std::make_shared<const std::vector<device_ref>>(std::move(devices));
  result.stripe_bytes_ = stripe_bytes;
  return result;
}

const std::vector<device_ref>& chunk_placement::devices() const noexcept {
  static const std::vector<device_ref> none;
  return devices_ ? *devices_ : none;
}

chunk_placement chunk_placement::spill(std::size_t device_budget_bytes, memory_location beyond) {
  if (!beyond.is_host())
    throw std::invalid_argument{"chunk_placement::spill: beyond the budget is device " +
                                std::to_string(beyond.device()->ordinal()) +
                                "; name the host or one of its nodes, or use striped()"};
  chunk_placement result;
  result.budget_ = device_budget_bytes;
  result.beyond_ = beyond;
  return result;
}

std::vector<device_ref> detail::devices_of(const chunk_placement& placement, device_ref owner) {
  std::vector<device_ref> result{owner};
  for (const device_ref each : placement.devices())
    if (std::ranges::find(result, each) == result.end()) result.push_back(each);
  return result;
}

detail::chunk_place detail::place_of(const chunk_placement& placement, device_ref owner,
                                     std::size_t offset, std::size_t owner_bytes) noexcept {
  constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
  if (const std::optional<std::size_t> budget = placement.budget_bytes()) {
    if (owner_bytes >= *budget) return {placement.beyond_budget(), unlimited};
    return {owner, *budget - owner_bytes};
  }
  if (!placement.is_striped()) return {owner, unlimited};
  const std::size_t stripe = placement.stripe_bytes();
  const std::vector<device_ref>& devices = placement.devices();
  return {devices[offset / stripe % devices.size()], stripe - offset % stripe};
}

}  // namespace hipvmm
