// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>

namespace hipvmm::host_provider {

class runtime;
class stream_queue;

/// The calling thread's last error and current device.
hipError_t& last_error() noexcept;
int& current_device() noexcept;

/// The calling thread's own default stream (hipStreamPerThread) on `device`: a blocking stream,
/// made on first use and closed when the thread ends.
std::shared_ptr<stream_queue> per_thread_stream(runtime& machine, int device);

}  // namespace hipvmm::host_provider
