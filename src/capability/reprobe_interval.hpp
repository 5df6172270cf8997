// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>

namespace hipvmm::detail {

/// How long traits that probes left open are not probed again. A try may cost a process: code that
/// makes regions while memory is short would otherwise pay for one each time. Tests shorten it.
inline std::atomic<std::chrono::seconds> reprobe_interval{std::chrono::minutes{1}};

}  // namespace hipvmm::detail
