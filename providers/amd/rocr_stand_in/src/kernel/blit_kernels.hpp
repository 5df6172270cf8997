// SPDX-License-Identifier: MIT
// The runtime's own kernels (clr, device/blitcl.cpp), done by the CPU. All others are named once.
#pragma once

#include <string>
#include <vector>

#include "src/kernel/kernels.hpp"
#include "src/memory/device_view.hpp"

namespace stand_in {

/// Returns "fill (kernel f)", "copy (kernel f)", ... or "kernel f".
std::string describe_kernel(const kernel& which);

void run_kernel(const kernel& which, const argument_values& values, const device_view& memory);

/// The bytes that a dispatch will use, as far as its arguments say; for a kernel of the program the
/// first byte of each pointer. Kernels that wait for or write a value in memory are left out: the
/// host may know that they are done before their packets are.
std::vector<byte_range> ranges_of_kernel(const kernel& which, const argument_values& values);

}  // namespace stand_in
