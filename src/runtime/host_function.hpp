// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::detail {

/// Makes HIP call `function` after the work of `stream`, in a thread of HIP, with false if HIP says
/// that this work failed. `function` must not call HIP and must not throw. Throws: hip_error.
void add_host_function(stream_ref stream, std::function<void(bool succeeded)> function);

/// Waits until HIP's own thread has released all work that had finished before the call. AMD's
/// runtime has one such thread in a process: it serves finished signals and runs host functions.
/// Two host functions run in a row, because the first may overtake signals that finished before it.
/// Returns false after `limit`, as behind a host function that takes long, without destroying its
/// stream, whose creation is not counted (a process's first takes long). Throws: hip_error.
[[nodiscard]] bool outlast_handlers(device_ref device, std::chrono::milliseconds limit);

}  // namespace hipvmm::detail
