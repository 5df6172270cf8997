// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// All that a record depends on, in one line.
std::string fingerprint_of(device_ref device);

/// FNV-1a in 16 hexadecimal digits, for a file name.
std::string hash_of(const std::string& text);

}  // namespace hipvmm::detail
