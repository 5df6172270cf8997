// SPDX-License-Identifier: MIT
#include "tool/budgets.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::tool {
namespace {

std::vector<budget_holder> sorted(std::vector<budget_holder> holders) {
  std::ranges::stable_sort(holders, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return holders;
}

/// The command that removes a budget; it names the device if several have one of that name.
std::string removal_of(const budget_report& budget, const std::vector<budget_report>& all) {
  const auto same =
      std::ranges::count_if(all, [&](const auto& each) { return each.name == budget.name; });
  return "`hipvmm-ctl remove " + budget.name +
         (same == 1 ? std::string{} : " --device " + to_string(budget.device)) + '`';
}

}  // namespace

std::string budgets_text(const std::vector<budget_report>& budgets) {
  if (budgets.empty()) return "no budgets\n";
  std::string text;
  for (const budget_report& each : budgets) {
    text += "budget " + each.name + " on " + to_string(each.device) + ": " +
            format_bytes(each.bytes) + " of " + format_limit(each.limit) + " held by " +
            std::to_string(each.holders.size()) +
            (each.holders.size() == 1 ? " process" : " processes") +
            (each.holders.empty() ? "; " + removal_of(each, budgets) + " removes it\n" : "\n");
    for (const budget_holder& one : sorted(each.holders)) {
      text += "  process " + std::to_string(one.process) + " (" + one.program +
              "): " + format_bytes(one.bytes) + ", priority " + std::to_string(one.priority);
      if (one.waiting_for != 0) text += ", waits for " + format_bytes(one.waiting_for);
      text += '\n';
    }
  }
  return text;
}

std::string budgets_json(const std::vector<budget_report>& budgets) {
  using json = nlohmann::ordered_json;
  json all = json::array();
  for (const budget_report& each : budgets) {
    json holders = json::array();
    for (const budget_holder& one : sorted(each.holders))
      holders.push_back({{"process", one.process},
                         {"program", one.program},
                         {"priority", one.priority},
                         {"bytes", one.bytes},
                         {"waiting_for", one.waiting_for}});
    all.push_back({{"name", each.name},
                   {"device", to_string(each.device)},
                   {"limit", each.limit},
                   {"bytes", each.bytes},
                   {"holders", holders}});
  }
  return json{{"budgets", all}}.dump(2, ' ', true) + '\n';
}

}  // namespace hipvmm::tool
