// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

#include "preload/calls.hpp"

namespace hipvmm::test {

/// HIP itself, as the preload finds it in a program.
inline constexpr preload::real_calls hip_calls{
    [](void** pointer, std::size_t bytes) { return int{hipMalloc(pointer, bytes)}; },
    [](void* pointer) { return int{hipFree(pointer)}; },
    [](void** pointer, std::size_t bytes, void* on) {
      return int{hipMallocAsync(pointer, bytes, static_cast<hipStream_t>(on))};
    },
    [](void* pointer, void* on) {
      return int{hipFreeAsync(pointer, static_cast<hipStream_t>(on))};
    },
    [](std::size_t* free, std::size_t* total) { return int{hipMemGetInfo(free, total)}; },
    [](void** base, std::size_t* bytes, void* pointer) {
      return int{hipMemGetAddressRange(base, bytes, pointer)};
    },
    [](void* handle, void* pointer) {
      return int{hipIpcGetMemHandle(static_cast<hipIpcMemHandle_t*>(handle), pointer)};
    },
};

}  // namespace hipvmm::test
