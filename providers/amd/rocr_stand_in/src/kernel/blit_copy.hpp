// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "src/kernel/kernels.hpp"
#include "src/memory/device_view.hpp"

namespace stand_in {

/// copyBuffer: clr 6 and 7 pass bytes, clr 5 a count of words and the bytes behind them.
void run_copy(const argument_values& values, const device_view& memory);
std::vector<byte_range> ranges_of_copy(const argument_values& values);

/// copyBufferAligned: origins and size in units of `alignment`.
void run_copy_aligned(const argument_values& values, const device_view& memory);
std::vector<byte_range> ranges_of_copy_aligned(const argument_values& values);

/// copyBufferRect and copyBufferRectAligned; their unit is 16 or 4 bytes.
void run_copy_rect(const argument_values& values, const device_view& memory);
std::vector<byte_range> ranges_of_copy_rect(const argument_values& values);
void run_copy_rect_aligned(const argument_values& values, const device_view& memory);
std::vector<byte_range> ranges_of_copy_rect_aligned(const argument_values& values);

}  // namespace stand_in
