// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>

namespace hipvmm::detail {

/// How long what probes have left open is let alone: a try may cost a process, and whoever makes
/// regions while memory is short would pay for one each time. Tests shorten it.
inline std::atomic<std::chrono::seconds> pause_between_probes{std::chrono::minutes{1}};

}  // namespace hipvmm::detail
