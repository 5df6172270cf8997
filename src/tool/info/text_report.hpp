// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tool/info/facts.hpp"

namespace hipvmm::tool {

enum class detail_level { plain, explained };

/// A page of 80 columns, ready to be pasted into a bug report.
std::string text_report(const facts& known, detail_level level);

}  // namespace hipvmm::tool
