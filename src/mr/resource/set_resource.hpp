// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>

// Functions by which an adaptor sets the resources of devices, beside
// mr::set_per_device_resource().
namespace hipvmm::detail {

/// The resource set for a device, and the object by which an adaptor identifies it. The resource
/// may have ended; `adapted` makes it unnecessary to dereference it. `adapted` is nullptr if no
/// adaptor set it.
struct set_resource {
  mr::memory_resource* resource;
  void* adapted;
};

/// Returns the resource set for `device`. Throws: as mr::get_per_device_resource().
[[nodiscard]] set_resource resource_set_for(device_ref device);
/// Returns whether no resource is set for `device`. Throws: as mr::get_per_device_resource().
[[nodiscard]] bool has_initial_resource(device_ref device);

/// Sets `next` for `device`, nullptr for the initial resource. Returns the previous one, which is
/// not dereferenced. Throws: as mr::set_per_device_resource().
set_resource exchange_resource(device_ref device, set_resource next);

}  // namespace hipvmm::detail
