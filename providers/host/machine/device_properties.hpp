// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>

#include "machine/runtime.hpp"

namespace hipvmm::host_provider {

std::string name_of(const runtime& machine, int device);

/// The value of hipDeviceGetAttribute. Throws: failure with hipErrorInvalidValue for an attribute
/// without a true value.
int attribute_of(const runtime& machine, int device, int attribute);

/// The fields equal the attributes; zero if there is none.
hipDeviceProp_t properties_of(runtime& machine, int device);

/// Domain, bus, device and function, as Linux writes them.
std::string pci_address_of(const runtime& machine, int device);

/// Equal in processes with equal settings, and different if devices behave differently: a program
/// that keeps facts under the UUID must not use them there.
hipUUID uuid_of(const runtime& machine, int device) noexcept;

}  // namespace hipvmm::host_provider
