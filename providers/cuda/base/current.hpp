// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>
#include <hip/hip_runtime_api.h>

namespace hipvmm::cuda_provider {

/// HIP's current device of the calling thread. A current CUDA context that is a device's primary
/// one decides, as for the CUDA runtime, so that both agree. Without a context, or with one of the
/// application's own, it is the last device of hipSetDevice, else 0.
int current_device();

/// The primary context of the current device. It becomes current in a thread that has none, as
/// after a function of the CUDA runtime: without one the runtime and the driver do not know the
/// memory that the thread asks about.
CUcontext bound_primary();

/// The same if the current device has a primary context already. If it has none, one that this
/// provider uses, which does not stay current.
CUcontext any_bound_primary();

/// Makes `device` current, with its primary context unless a context of the application's own is
/// current, which stays. Device 0 gets no context if it has none and the thread had none before it
/// left device 0: then none is current again.
void set_current_device(int device);

/// The context that work on `stream` belongs to: its own, or for the null stream and the thread's
/// own stream the current device's primary one.
CUcontext context_of(hipStream_t stream);

hipError_t& last_error() noexcept;

}  // namespace hipvmm::cuda_provider
