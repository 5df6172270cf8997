// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace hipvmm::detail {

/// Returns the value of an environment variable; null if it is not set, and in a program with
/// rights of its own (setuid, file capabilities), because its caller must not control it.
/// Note: the library reads the environment by nothing else, which a layering test checks.
inline const char* environment(const char* name) noexcept { return ::secure_getenv(name); }

}  // namespace hipvmm::detail
