// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include "grower.hpp"

struct ihipStream_t;

// Compiled by nvcc or hipcc. BENCH_KERNELS is defined if one was found; if not, only calls in
// discarded branches may name these functions.
namespace bench {

#ifdef BENCH_KERNELS
inline constexpr bool kernels_built = true;
#else
inline constexpr bool kernels_built = false;
#endif
inline constexpr const char* no_kernels = "not built: neither nvcc nor hipcc was found";

// The kernels run on the device that is current, in the order of its `stream`, and throw
// std::runtime_error when they cannot be launched.

/// Does nothing for so many milliseconds of the device's clock.
void launch_wait(unsigned milliseconds, ihipStream_t* stream);
/// Reads `bytes` bytes, a multiple of 16.
void launch_read(const void* source, std::size_t bytes, ihipStream_t* stream);
/// Copies `bytes` bytes, a multiple of 16.
void launch_copy(void* destination, const void* source, std::size_t bytes, ihipStream_t* stream);

/// thrust::device_vector by resize, which also sets new elements to zero, of the current device.
[[nodiscard]] std::unique_ptr<grower> make_thrust_vector(peak_hook at_peak);

}  // namespace bench
