// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// `adapted`, if not nullptr, stands for the resource, which may have ended: do not dereference it.
struct set_resource {
  mr::memory_resource* resource;
  void* adapted;
};

// These throw as mr::get_per_device_resource().
[[nodiscard]] set_resource resource_set_for(device_ref device);
[[nodiscard]] bool has_initial_resource(device_ref device);

/// As mr::set_per_device_resource(), but the previous resource is not dereferenced.
set_resource exchange_resource(device_ref device, set_resource next);

}  // namespace hipvmm::detail
