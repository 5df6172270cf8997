// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/fault_rule.hpp"
#include "base/handle_table.hpp"
#include "base/profile.hpp"

namespace hipvmm::host_provider {

inline constexpr int max_devices = 64;

/// Settings of the environment, which providers/host/docs/environment.md lists.
struct settings {
  const profile* like = &profiles().front();
  /// Devices of the machine, each with a place from 0 on.
  int machine_devices = 2;
  /// The places of the devices that the process has, in the order of their numbers.
  std::vector<int> visible{0, 1};
  std::size_t granularity = 2U << 20U;
  std::size_t recommended_granularity = 2U << 20U;
  std::size_t device_bytes = 0;
  std::size_t reported_bytes = 0;  ///< that devices name as their total
  bool is_integrated = false;      ///< devices share the memory of the host
  std::size_t address_space_bytes = 0;
  /// The limit of pinned and managed memory together.
  std::size_t host_bytes = std::numeric_limits<std::size_t>::max();
  /// Bytes of each device that hipMemGetInfo does not report as free.
  std::size_t hidden_bytes = 0;
  /// links[d] has bit p set when device d reaches device p over a peer link.
  std::vector<std::uint64_t> links;
  fault_settings faults;
  bool reports_leaks = false;
  bool check_races = false;
  handle_reuse stream_and_event_handles = handle_reuse::none;
  host_touch touch = host_touch::as_devices;  ///< of mapped memory
  bool pageable_access = false;               ///< devices reach all memory of the host
  bool fabric_handles = false;                ///< chunks may be exported to other nodes
  bool concurrent_managed_access = true;      ///< devices and the host use managed memory at once
  /// Equal in processes in which devices and their memory behave alike.
  std::uint64_t fingerprint = 0;
};

/// Throws: std::invalid_argument that names the variable, its value and the accepted values.
settings read_settings();

}  // namespace hipvmm::host_provider
