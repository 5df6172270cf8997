// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// All that a record depends on, in one line: devices, versions, variables, sources of the probes.
std::string fingerprint_of(device_ref device);

/// FNV-1a, as 16 hexadecimal digits: a short file name, not cryptographic.
std::string hash_of(const std::string& text);

}  // namespace hipvmm::detail
