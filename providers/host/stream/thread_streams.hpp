// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

namespace hipvmm::host_provider {

class stream_queue;
class stream_set;

/// The calling thread's own default stream (hipStreamPerThread) among those of a device: a blocking
/// stream, made on first use and closed when the thread ends.
std::shared_ptr<stream_queue> per_thread_stream(stream_set& device);

/// Called in a child after fork, by the thread that goes on in it, which has none of its streams'
/// workers.
void leave_thread_streams() noexcept;

}  // namespace hipvmm::host_provider
