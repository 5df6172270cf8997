// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm {

struct attach_options {
  access_right right = access_right::read;  ///< of the memory's own devices, in this process
  access_list peers = {};  ///< rights of other devices of this process; each must reach the memory
  /// The memory's device in this process. Default: the device with the UUID that the owner reports.
  /// Name it if the runtime reports no UUIDs.
  std::optional<device_ref> device = std::nullopt;
  /// The same for each of publication_options::other_devices, in their order; or for none.
  std::vector<device_ref> other_devices = {};
  std::vector<unsigned> other_users = {};   ///< users (uid) accepted besides this process's own
  std::chrono::milliseconds timeout{5000};  ///< the longest that one call waits for the owner
};

}  // namespace hipvmm
