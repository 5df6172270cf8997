// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstddef>

#include <hipvmm/runtime/stream.hpp>
#include "preload/calls.hpp"
#include "preload/replacement.hpp"

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

/// Memory as by hipMalloc.
inline void* allocate(preload::replacement& from, std::size_t bytes) {
  void* made = nullptr;
  REQUIRE(from.allocate(hip_calls, &made, bytes) == 0);
  return made;
}

/// Memory as by hipMallocAsync.
inline void* allocate(preload::replacement& from, std::size_t bytes, stream_ref stream) {
  void* made = nullptr;
  REQUIRE(from.allocate_async(hip_calls, &made, bytes, stream) == 0);
  return made;
}

}  // namespace hipvmm::test
