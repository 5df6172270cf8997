// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// The link between two devices, as hipExtGetLinkTypeAndHopCount reports it.
enum class link_type {
  unknown,  ///< HIP does not report it (CUDA), or by a number that hipvmm does not know
  hypertransport,
  qpi,
  pcie,
  infiniband,
  xgmi,
};

[[nodiscard]] std::string_view name_of(link_type type) noexcept;

/// How `device` reaches memory of `peer`. Values that HIP does not report are link_type::unknown or
/// empty, never derived. AMD reports type, hops and atomics even if `can_access` is false.
struct peer_link {
  device_ref device;
  device_ref peer;
  bool can_access = false;  ///< hipDeviceCanAccessPeer: may kernels of `device` use the memory
  link_type type = link_type::unknown;
  std::optional<unsigned> hops = std::nullopt;  ///< as HIP counts them
  /// 0: the fastest of the machine. Empty on AMD, which reports the link type's number instead.
  std::optional<int> performance_rank = std::nullopt;
  /// As `can_access`, by hipDeviceGetP2PAttribute.
  std::optional<bool> access_supported = std::nullopt;
  std::optional<bool> native_atomics = std::nullopt;
  /// Whether `device` may use arrays (hipMallocArray) of `peer`.
  std::optional<bool> array_access = std::nullopt;
};

/// Throws: std::invalid_argument for a device and itself.
[[nodiscard]] peer_link peer_link_between(device_ref device, device_ref peer);

/// To every other device of the process, by the peer's ordinal.
[[nodiscard]] std::vector<peer_link> peer_links(device_ref device);

/// All in both directions, by device, then by peer.
[[nodiscard]] std::vector<peer_link> peer_links();

}  // namespace hipvmm
