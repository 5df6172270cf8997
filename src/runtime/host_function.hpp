// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::detail {

/// HIP calls `function` in its own thread after the work of `stream`, with false if that work
/// failed. `function` must not call HIP and must not throw. Throws: hip_error.
void add_host_function(stream_ref stream, std::function<void(bool succeeded)> function);

/// Waits until HIP's thread has released all work that had finished before the call. AMD's runtime
/// has one; two host functions run in a row, because the first may overtake signals. Returns false
/// after `limit` and then leaks its stream, because its end would wait. Throws: hip_error.
[[nodiscard]] bool outlast_handlers(device_ref device, std::chrono::milliseconds limit);

}  // namespace hipvmm::detail
