// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace hipvmm::detail {

/// Null too in a program with rights of its own (setuid, file capabilities), because its caller
/// must not control it. The library reads the environment by nothing else (a test checks that).
inline const char* environment(const char* name) noexcept { return ::secure_getenv(name); }

}  // namespace hipvmm::detail
