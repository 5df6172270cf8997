// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "src/kernel/kernels.hpp"
#include "src/memory/device_view.hpp"

namespace stand_in {

/// fillBufferAligned: one range. clr 6 and 7 pass its end, clr 5 a count of patterns.
void run_fill(const argument_values& values, const device_view& memory);
std::vector<byte_range> ranges_of_fill(const argument_values& values);

/// fillBufferAligned2D: rows.
void run_fill_2d(const argument_values& values, const device_view& memory);
std::vector<byte_range> ranges_of_fill_2d(const argument_values& values);

}  // namespace stand_in
