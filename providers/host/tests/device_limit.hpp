// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

// The header of 5.2 lacks it, later ones declare the same.
extern "C" hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value);
