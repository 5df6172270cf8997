// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Everything a record depends on, in one line: device, peers, driver, runtime, kernel, variables
/// of the runtime, library and the sources of the probes.
std::string fingerprint_of(device_ref device);

/// FNV-1a hash as 16 hexadecimal digits: short names for long texts. Not cryptographic.
std::string hash_of(const std::string& text);

}  // namespace hipvmm::detail
