// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/core/device.hpp>
#include <hipvmm/mr/memory_resource.hpp>

// How an adaptor sets the resources of devices, beside mr::set_per_device_resource().
namespace hipvmm::detail {

/// The resource of a device, which may have ended, and the object that an adaptor knows it by, so
/// that the resource itself need not be followed for that. `adapted` is nullptr where no adaptor
/// set it.
struct set_resource {
  mr::memory_resource* resource;
  void* adapted;
};

/// What is set for `device`. Throws: as mr::get_per_device_resource().
[[nodiscard]] set_resource resource_set_for(device_ref device);

/// Sets `next` for `device`, nullptr for the one from the start, and returns what was set before,
/// which is not followed. Throws: as mr::set_per_device_resource().
set_resource exchange_resource(device_ref device, set_resource next);

}  // namespace hipvmm::detail
