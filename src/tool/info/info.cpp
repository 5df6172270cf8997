// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/version.hpp>
#include "tool/budgets.hpp"
#include "tool/info/facts.hpp"
#include "tool/info/json_report.hpp"
#include "tool/info/text_report.hpp"
#include "tool/program.hpp"

namespace {

namespace tool = hipvmm::tool;

struct options {
  std::optional<int> device;
  std::string json;
  bool as_json = false;
  bool probe = false;
  bool explain = false;
  bool budgets = false;
};

void declare(CLI::App& app, options& chosen) {
  tool::add_device_option(app, chosen.device, "Only this device");
  CLI::Option* const json =
      app.add_option("--json", chosen.json, "Write JSON, to standard output unless FILE is named")
          ->type_name("[-|FILE]")
          ->expected(0, 1);
  app.add_flag("--probe", chosen.probe, "Probe anew and replace the cached record");
  app.add_flag("--explain", chosen.explain,
               "Explain each trait: its effect, the affected releases, and hipvmm's action")
      ->excludes(json);
  app.add_flag("--budgets", chosen.budgets,
               "Show the memory budgets and their holders, and no devices; hipvmm-ctl sets limits")
      ->excludes("--probe", "--explain");
  app.set_version_flag("--version", "hipvmm-info " HIPVMM_VERSION_STRING);
  app.footer("See docs/guides/rocm.md for how to read it. Paste its output into a bug report.");
}

std::vector<hipvmm::device_ref> devices_of(const options& chosen) {
  const hipvmm::device_ref first = tool::device_of(chosen.device.value_or(0));
  if (chosen.device) return {first};
  std::vector<hipvmm::device_ref> all;
  for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal) all.emplace_back(ordinal);
  return all;
}

std::string budgets_of(const options& chosen) {
  std::vector<hipvmm::budget_report> all = hipvmm::memory_budget::all();
  if (chosen.device) {
    const hipvmm::device_uuid uuid = tool::device_of(*chosen.device).uuid();
    std::erase_if(all, [&](const auto& each) { return each.device != uuid; });
  }
  return chosen.as_json ? tool::budgets_json(all) : tool::budgets_text(all);
}

int tell(const options& chosen) {
  const std::vector<hipvmm::device_ref> devices =
      chosen.budgets ? std::vector<hipvmm::device_ref>{} : devices_of(chosen);
  if (!chosen.json.empty()) tool::require_different({}, {{"--json", chosen.json}});
  const std::unique_ptr<tool::output_file> file = tool::file_for_result(chosen.json);
  if (chosen.budgets) {
    tool::write_result(file, budgets_of(chosen));
    return 0;
  }

  const tool::facts known = tool::gather(
      devices, chosen.probe ? tool::record_source::probed_anew : tool::record_source::at_hand);
  const std::string text =
      chosen.as_json ? tool::json_report(known)
                     : tool::text_report(known, chosen.explain ? tool::detail_level::explained
                                                               : tool::detail_level::plain);
  tool::write_result(file, text);

  if (!chosen.as_json && !known.failed.empty())
    throw std::runtime_error{std::to_string(known.failed.size()) + " of " +
                             std::to_string(devices.size()) + " devices failed, see above"};
  for (const tool::failed_device& each : known.failed)
    tool::write_error("hipvmm-info",
                      "device " + std::to_string(each.device.ordinal()) + ": " + each.why);
  return known.failed.empty() ? 0 : tool::failed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Reports how the memory of this machine's HIP devices behaves, and hipvmm's response.",
      "hipvmm-info"};
  options chosen;
  declare(app, chosen);
  return hipvmm::tool::run_program(app, argc, argv, [&] {
    chosen.as_json = app.count("--json") != 0;
    return tell(chosen);
  });
}
