// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <hipvmm/runtime/device.hpp>

// The budget that HIPVMM_CONF names, "budget=infer:40GiB", for programs that know of none.
namespace hipvmm::c {

struct named_limit {
  std::string name;
  std::size_t bytes;
};

/// Joins the budget `named` once for each device, until the process ends; does nothing without a
/// name. Call it before the device's first memory that must count. Both functions are thread-safe.
void join_configured_budget(device_ref device, const std::optional<named_limit>& named);

/// The bytes left in that budget; nullopt if the process takes no part in it.
[[nodiscard]] std::optional<std::size_t> left_of_configured_budget(device_ref device);

}  // namespace hipvmm::c
