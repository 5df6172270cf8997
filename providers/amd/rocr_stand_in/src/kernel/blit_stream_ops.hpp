// SPDX-License-Identifier: MIT
#pragma once

#include "src/kernel/kernels.hpp"
#include "src/memory/device_view.hpp"

namespace stand_in {

/// streamOpsWrite, streamOpsWait: a value of 4 or 8 bytes.
void run_write_value(const argument_values& values, const device_view& memory);
void run_wait_value(const argument_values& values, const device_view& memory);
/// batchMemOp: an array of both.
void run_batch(const argument_values& values, const device_view& memory);

}  // namespace stand_in
