// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>

#include "machine/runtime.hpp"

namespace hipvmm::host_provider {

/// The name of a device.
std::string name_of(const runtime& machine, int device);

/// The value of hipDeviceGetAttribute. Throws: failure with hipErrorInvalidValue for an attribute
/// without a true value.
int attribute_of(const runtime& machine, int device, int attribute);

/// Field by field the same as the attributes; zero if there is none.
hipDeviceProp_t properties_of(runtime& machine, int device);

/// Domain, bus, device and function, as Linux writes them.
std::string pci_address_of(const runtime& machine, int device);

/// The same in every process with the same settings, and another if devices behave otherwise: a
/// program must not believe facts there that it keeps under the UUID.
hipUUID uuid_of(const runtime& machine, int device) noexcept;

}  // namespace hipvmm::host_provider
