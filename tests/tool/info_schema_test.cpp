// SPDX-License-Identifier: MIT
// JSON of the tools is as the schemas in packaging/share say, member by member.
#include <fstream>
#include <nlohmann/json.hpp>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "ipc/budget/budget_folder.hpp"
#include "support/test.hpp"
#include "tool/budgets.hpp"
#include "tool/info_program.hpp"

namespace hipvmm::test {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// The part of JSON Schema that the file uses. Returns the places that differ.
void compare(const json& value, const json& schema, const std::string& place,
             std::vector<std::string>& wrong) {
  const json& type = schema.at("type");
  bool fits = false;
  for (const json& each : type.is_array() ? type : json::array({type}))
    fits = fits || has_type(value, each);
  if (!fits) wrong.push_back(place + " has another type");
  if (schema.contains("enum") && schema["enum"] != json::array() &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    wrong.push_back(place + " has another value");
  if (value.is_array())
    for (const json& each : value) compare(each, schema.at("items"), place + "[]", wrong);
  if (!value.is_object()) return;
  const json& rest = schema.at("additionalProperties");
  for (const auto& [name, each] : value.items()) {
    const bool is_named = schema.contains("properties") && schema["properties"].contains(name);
    if (is_named)
      compare(each, schema["properties"][name], place + "." + name, wrong);
    else if (rest.is_object())
      compare(each, rest, place + "." + name, wrong);
    else
      wrong.push_back(place + "." + name + " is not in the schema");
  }
  if (schema.contains("required"))
    for (const json& name : schema["required"])
      if (!value.contains(name))
        wrong.push_back(place + "." + name.get<std::string>() + " is missing");
}

std::string differences(const json& value, const std::string& schema = "hipvmm-info") {
  std::ifstream file{SCHEMAS "/" + schema + ".schema.json"};
  std::vector<std::string> wrong;
  compare(value, json::parse(file), "report", wrong);
  std::string all;
  for (const std::string& each : wrong) all += each + '\n';
  return all;
}

}  // namespace

TEST_CASE("info: --json keeps its schema") {
  CHECK(differences(info_json({})) == "");
  json changed = info_json({"--device=0"});
  changed["devices"][0].erase("path");
  changed["devices"][0]["lanes"] = "many";
  changed["more"] = 1;
  CHECK(differences(changed) ==
        "report.devices[].lanes has another type\n"
        "report.devices[].path is missing\n"
        "report.more is not in the schema\n");
}

TEST_CASE("budgets: --json keeps its schema") {
  const budget_folder folder;
  const std::vector<std::string> with_folder{"HIPVMM_BUDGETS=" + folder.path().string()};
  const std::vector<std::string> asked{"--budgets", "--json"};
  const auto differ = [](const std::string& told) {
    return differences(json::parse(told), "hipvmm-budgets");
  };
  CHECK(differ(info_text(asked, with_folder)) == "");
  memory_budget::set_limit("a", first_device.uuid(), MiB);
  memory_budget::set_limit("b", first_device.uuid(), std::numeric_limits<std::size_t>::max());
  CHECK(differ(info_text(asked, with_folder)) == "");
  std::vector<budget_report> all = memory_budget::all();
  all.at(0).holders.push_back({12, "program", -1, MiB, 5});
  json changed = json::parse(tool::budgets_json(all));
  CHECK(differ(changed.dump()) == "");
  changed["budgets"][0]["holders"][0].erase("priority");
  changed["budgets"][0]["limit"] = "none";
  CHECK(differ(changed.dump()) ==
        "report.budgets[].holders[].priority is missing\n"
        "report.budgets[].limit has another type\n");
}

}  // namespace hipvmm::test
