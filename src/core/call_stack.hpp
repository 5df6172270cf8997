// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hipvmm::detail {

/// The innermost first, 32 at most.
std::vector<const void*> call_stack();

/// Formats a line for each call: its name, file and line if known, or its module. Omits the
/// innermost calls that took the stack, and those outside main.
std::string text_of_stack(const std::vector<const void*>& stack);

}  // namespace hipvmm::detail
