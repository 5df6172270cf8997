// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm {

/// How a process attaches to a publication.
struct attach_options {
  /// What the devices of the memory may do with it here.
  access_right right = access_right::read;
  /// Rights of other devices of this process: each must reach the memory.
  access_list peers = {};
  /// The memory's device in this process; by default the one with the UUID that the owner names,
  /// which a runtime may not report.
  std::optional<device_ref> device = std::nullopt;
  /// The same for publication_options::other_devices, in their order; all or none.
  std::vector<device_ref> other_devices = {};
  /// Users (uid) whose publications are accepted besides the one this process runs as.
  std::vector<unsigned> other_users = {};
  /// The longest that one call waits for the owner.
  std::chrono::milliseconds timeout{5000};
};

}  // namespace hipvmm
