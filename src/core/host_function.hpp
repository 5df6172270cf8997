// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>

namespace hipvmm::detail {

/// Has HIP call `function` behind the work of `stream`, in a thread of HIP's. `function` must not
/// call HIP and not throw. Throws: hip_error.
void add_host_function(stream_ref stream, std::function<void()> function);

/// Waits until HIP's own thread has dropped all work that had finished before the call. AMD's
/// runtime has one such thread in a process: it serves finished signals and runs host functions.
/// - Two host functions run in a row: the first may overtake signals that finished before it, the
///   second begins after the thread has looked at all of them.
/// - Returns false when `limit` is over, as behind a host function of others that lasts. The stream
///   that was made for this is not destroyed then.
/// Throws: hip_error.
[[nodiscard]] bool outlast_handlers(device_ref device, std::chrono::milliseconds limit);

}  // namespace hipvmm::detail
