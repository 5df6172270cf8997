// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tool/info/facts.hpp"

namespace hipvmm::tool {

/// One JSON object and a line end; docs/guides/rocm.md lists its members.
std::string json_report(const facts& known);

}  // namespace hipvmm::tool
