// SPDX-License-Identifier: MIT
#pragma once

#include <cuda/memory_resource>

namespace rmm {

using device_async_resource_ref = cuda::mr::device_resource_ref;

}  // namespace rmm
