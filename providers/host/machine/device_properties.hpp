// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>

#include "machine/runtime.hpp"

namespace hipvmm::host_provider {

/// What a device is called.
std::string name_of(const runtime& machine, int device);

/// What hipDeviceGetAttribute gives. Throws: failure with hipErrorInvalidValue for an attribute
/// that nothing true can be said of.
int attribute_of(const runtime& machine, int device, int attribute);

/// Field by field the same as the attributes; zero where there is none.
hipDeviceProp_t properties_of(runtime& machine, int device);

/// Domain, bus, device and function, as Linux writes them.
std::string pci_address_of(const runtime& machine, int device);

/// The same in every process with the same settings, and another where devices behave otherwise:
/// what a program has learned of a device and keeps under its UUID must not be believed there.
hipUUID uuid_of(const runtime& machine, int device) noexcept;

}  // namespace hipvmm::host_provider
