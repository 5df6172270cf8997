// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <string>
#include <type_traits>

#include <hipvmm/core/logger.hpp>

// CMake's HIPVMM_LOGGING_LEVEL in lower case: the lowest level that is compiled in.
#ifndef HIPVMM_LOGGING_LEVEL
#define HIPVMM_LOGGING_LEVEL info
#endif

namespace hipvmm::detail {

/// Lets all lines pass until the first one makes default_logger().
extern std::atomic<log_level> least_logged;

bool logs_to_stderr() noexcept;

void log_line(log_level level, std::string (*make)(void*), void* argument) noexcept;

/// Writes the text that `make()` returns. If `Level` is not compiled in, there is no code; if it is
/// disabled, the cost is one load.
template <log_level Level, log_level Compiled = log_level::HIPVMM_LOGGING_LEVEL, typename Make>
void log([[maybe_unused]] Make make) noexcept {
  // So that a build that compiles the line in does not fail.
  static_assert(std::is_constructible_v<std::string, std::invoke_result_t<Make&>>);
  if constexpr (Level >= Compiled) {
    if (Level >= least_logged.load(std::memory_order_relaxed))
      log_line(
          Level, [](void* argument) { return std::string{(*static_cast<Make*>(argument))()}; },
          &make);
  }
}

}  // namespace hipvmm::detail
