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
  /// The right of the memory's devices to it in this process.
  access_right right = access_right::read;
  /// Rights of other devices of this process: each must reach the memory.
  access_list peers = {};
  /// The memory's device in this process. Default: the device with the UUID that the owner reports;
  /// some runtimes report none.
  std::optional<device_ref> device = std::nullopt;
  /// The same for publication_options::other_devices, in their order; all or none.
  std::vector<device_ref> other_devices = {};
  /// Users (uid) whose publications this process accepts, in addition to its own user.
  std::vector<unsigned> other_users = {};
  /// The longest that one call waits for the owner.
  std::chrono::milliseconds timeout{5000};
};

}  // namespace hipvmm
