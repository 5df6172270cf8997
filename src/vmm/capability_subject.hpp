// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <hipvmm/core/device.hpp>

namespace hipvmm::detail {

/// All that a record depends on, in one line: device, peers, driver, runtime, kernel, library and
/// the sources of the probes.
std::string subject_of(device_ref device);

/// FNV-1a, as 16 hexadecimal digits: short names for long texts, and no secret.
std::string hash_of(const std::string& text);

}  // namespace hipvmm::detail
