// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::detail {

/// Returns the return addresses of the enclosing calls, the innermost first, 32 at most.
std::vector<const void*> call_stack();

/// Formats one line for each call, with its name, file and line if known, or its module. Omits the
/// innermost calls that took the stack, and the calls that called main.
std::string text_of_stack(const std::vector<const void*>& stack);

}  // namespace hipvmm::detail
