// SPDX-License-Identifier: MIT
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace hipvmm::detail {

/// The return addresses of the calls that this one lies in, the innermost first, 32 at most.
std::vector<const void*> call_stack();

/// A line for each call, with what is known of it: name, file and line, or the module. What took
/// the stack is left out: the innermost calls as long as their names contain one of `own`; so is
/// what called main.
std::string text_of_stack(const std::vector<const void*>& stack,
                          std::initializer_list<std::string_view> own);

}  // namespace hipvmm::detail
