// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace hipvmm::detail {

/// The library's only access to the environment, which a test checks. Null in a program with rights
/// of its own (setuid, file capabilities), which its caller must not control.
inline const char* environment(const char* name) noexcept { return ::secure_getenv(name); }

}  // namespace hipvmm::detail
