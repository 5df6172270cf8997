// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "src/kernel/kernels.hpp"

namespace stand_in {

/// Reads NT_AMDGPU_METADATA, a message pack. Empty if it is malformed.
std::vector<kernel> parse_kernel_metadata(const unsigned char* note, std::size_t bytes);

}  // namespace stand_in
