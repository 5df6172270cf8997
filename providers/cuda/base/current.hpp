// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>
#include <hip/hip_runtime_api.h>

namespace hipvmm::cuda_provider {

/// HIP's current device of the calling thread. If the thread's current CUDA context is a device's
/// primary one, it is that device, as for the CUDA runtime, so that both agree; if there is none,
/// or one of the application's own, it is the last one of hipSetDevice, else 0.
int current_device();

/// The primary context of the current device. A thread that has no current context has this one
/// from then on, as after a function of the CUDA runtime: without one the runtime and the driver do
/// not know the memory that the thread asks about.
CUcontext bound_primary();

/// The same if the current device has a primary context already. If it has none, one that this
/// provider uses, which does not stay current.
CUcontext any_bound_primary();

/// Makes `device` the current one. Its primary context becomes current, unless a context of the
/// application's own is: that one stays. Device 0 gets none if nobody has made one and the thread
/// had none before it left device 0: then none is current again.
void set_current_device(int device);

/// The context that work on `stream` belongs to: its own, or for the null stream and the thread's
/// own stream the current device's primary one.
CUcontext context_of(hipStream_t stream);

/// The calling thread's last error.
hipError_t& last_error() noexcept;

}  // namespace hipvmm::cuda_provider
