// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include <hipvmm/ipc/budget/budget_options.hpp>

namespace hipvmm::tool {

std::string budgets_text(const std::vector<budget_report>& budgets);

/// One JSON object and a line end; docs/guides/budgets.md lists its members.
std::string budgets_json(const std::vector<budget_report>& budgets);

}  // namespace hipvmm::tool
